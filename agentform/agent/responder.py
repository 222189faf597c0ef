"""One model turn over messages that the caller keeps: what servers and other frameworks' chat models need.

`Agent` runs tools and goes on until the model answers. A `Responder` stops after one turn: its response is an answer,
or calls whose arguments are valid, and whoever asked runs them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from agentform._util.lru import BoundedDict
from agentform.agent.repeated_calls import repeated_call, stale_calls
from agentform.agent.streaming import Streaming, streaming
from agentform.agent.token_logprobs import TokenLogprob, ids_of_text, token_logprobs
from agentform.decoding.call_results import bound_results
from agentform.decoding.limits import Limits
from agentform.decoding.prompt_work import TOOL_CHARACTERS, check_fits, num_characters, prompt_work
from agentform.decoding.session import Session
from agentform.errors import ArgumentsTruncated, InvalidInput
from agentform.events import AnswerDelta, CallReady, CallRepeated, Emit, Event, ReasoningDelta, ThoughtDelta
from agentform.forms.label_prior import PriorStore, priors_of
from agentform.forms.langchain_decider import DeciderSource, decider_of
from agentform.forms.scoring import Scoring
from agentform.grammar.spec import GrammarSpec
from agentform.messages import Evidence, Message, ToolCall, Usage
from agentform.runtime.engine import Engine, Sampling
from agentform.schema.target import Target, load
from agentform.tools.toolset import Toolbox
from agentform.turn.reasoning import Reasoning
from agentform.turn.turn import TurnRunner
from agentform.turn.types import TurnOptions, TurnResult

__all__ = ["Responder", "Response", "TokenLogprob", "ToolChoice", "UseTool"]

_KEPT_CALLERS = 64
_KEPT_CALLER_CHARACTERS = 4_000_000
"""Of the instructions and definitions of tools that something was prepared for."""
_KEPT_CONVERSATIONS = 256
_KEPT_TOKENS = 1_000_000
"""Of all conversations that have a name, together."""


@dataclass(frozen=True)
class UseTool:
    """The choice of one tool: the model must call it."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | UseTool
"""What a turn may do with tools: `auto` lets the model choose, `none` lets it only answer, `required` only call."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """What the model did in one turn."""

    message: Message
    """The assistant's message: free text, then the calls if any were made."""
    finish: Literal["answer", "length", "calls"]
    """`length` when the answer, or what was to become a call or form, was cut off at a limit of tokens."""
    usage: Usage
    """All that the turn's requests used. Each of them reads the prompt, all but the first from the cache."""
    prompt_usage: Usage
    """Of the request that read the prompt first: how long the prompt is, and how much of it was cached."""
    decision: Evidence | None = None
    """How it was decided to call or to answer, where there was a choice."""
    output: Any = None
    """The answer as the validator of the `output` form built it, if one was asked for."""
    evidence: tuple[Evidence, ...] = ()
    """How each leaf of `output` got its value."""
    truncated: ArgumentsTruncated | None = None
    """What was being written when the tokens ran out. The message holds nothing of it: no half call is reported."""
    stop: str | None = None
    """Which of the texts to stop at ended the answer."""
    repeated: ToolCall | None = None
    """A call that was made `Limits.same_call` times with the same result, and not once more: the model answered."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Of the tokens of an answer or a form, if they were asked for."""

    @property
    def reasoning(self) -> str:
        """What the model thought between its own marks; no part of the answer."""
        return self.message.reasoning

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that were made; their arguments satisfy their tools' schemas."""
        return self.message.calls


class Responder:
    """Answers messages with one assistant message. May serve many conversations at once.

    What was prepared for a set of tools, and the token ids of conversations that have a name, are kept for the next
    turn, the ones used last.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        scoring: Scoring | None = None,
        reasoning: Reasoning | None = None,
        priors: PriorStore | None = None,
        limits: Limits | None = None,
        decider: DeciderSource | None = None,
    ) -> None:
        self.engine = engine
        self.limits = limits or Limits()
        self._scoring = scoring or Scoring.of(engine)
        self._reasoning = reasoning or Reasoning()
        self._priors = priors or priors_of(engine)
        self._decider = decider_of(decider)
        self._callers: BoundedDict[str, TurnRunner] = BoundedDict(
            _KEPT_CALLER_CHARACTERS, weight=lambda key, _: max(len(key), _KEPT_CALLER_CHARACTERS // _KEPT_CALLERS)
        )
        self._token_ids: BoundedDict[str, tuple[int, ...]] = BoundedDict(
            _KEPT_TOKENS, weight=lambda _, ids: max(len(ids), _KEPT_TOKENS // _KEPT_CONVERSATIONS)
        )

    async def respond(
        self,
        messages: Sequence[Message],
        *,
        tools: Iterable[Callable[..., Any]] | Toolbox = (),
        tool_choice: ToolChoice = "auto",
        output: Any = None,
        stop: Sequence[str] = (),
        sampling: Sampling | None = None,
        limits: Limits | None = None,
        conversation: str | None = None,
        reasoning: Reasoning | None = None,
        allowed: Iterable[str] | None = None,
        logprobs: int | None = None,
        grammar: GrammarSpec | None = None,
        emit: Callable[[Event], Awaitable[None]] | None = None,
    ) -> Response:
        """One turn.

        The system messages with which `messages` begin are its instructions. With `output`, a type, JSON Schema or
        `Target`, an answer is that form, filled, its JSON the message's content. `stop` are texts that end free
        text. `sampling` is for what is generated; what is scored is always the most probable option.
        `conversation` names whose next turn this is: a hint for the cache. `reasoning` is how the model thinks in this
        turn, where it is not as in others. `allowed` are the names of the tools that may be called, where the model is
        told of others too. With `logprobs` the response tells how probable each token of an answer was, and so many of
        the others at its place. `grammar` is what an answer in free text has to match. `emit` is awaited with every
        event.

        A call that was made `Limits.same_call` times since the user spoke last, with the same arguments and the same
        result, is not made again, unless a call is required: the model answers, and `Response.repeated` tells of it.

        Raises:
            InvalidInput: there is no message to answer, or a call is required and there are no tools.
            SchemaError, ToolError: a tool or `output` is not one.
            CallError: a call or form could not be completed; CallRejected and Abstained among them.
            EngineError: the engine cannot serve the request; DeadlineExceeded among them.
        """
        toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        form = output if output is None or isinstance(output, Target) else load(output)
        turn_options = replace(
            _turn_options(toolbox, tool_choice),
            form=form,
            stop=tuple(stop),
            reasoning=reasoning,
            grammar=grammar,
            barred=frozenset() if allowed is None else frozenset(toolbox) - {toolbox[name].name for name in allowed},
        )
        instructions, rest = _split(messages)
        if form is not None and form.description:
            instructions = "\n".join(part for part in (instructions, form.description) if part)
        caller = self._caller(toolbox, instructions)
        session = Session(
            self.engine, limits=limits or self.limits, conversation=conversation, sampling=sampling or Sampling()
        )
        past = self._token_ids.get(conversation) or () if conversation else ()
        stale = stale_calls(rest, session.limits.same_call) if turn_options.may_answer and turn_options.may_call else ()
        heard, repeated = _Heard(emit, hold=bool(stale)), None
        try:
            turn = await caller.turn(session, rest, past=past, options=turn_options, emit=heard)
            if (repeated := repeated_call(turn.message.calls, stale)) is not None:
                heard.forget()
                await heard.tell(CallRepeated(call=repeated))
                may_answer_only = replace(turn_options, may_call=False)
                turn = await caller.turn(session, rest, past=past, options=may_answer_only, emit=heard)
            await heard.release()
        except ArgumentsTruncated as error:
            await heard.release()
            return replace(_cut_off("" if form else heard.text, heard.thought, error, session), repeated=repeated)
        if conversation:
            self._token_ids[conversation] = turn.token_ids
        for call in turn.message.calls:
            await heard(CallReady(call=call))
        told = () if logprobs is None else await _logprobs(session, turn, logprobs)
        return replace(_response(turn, form, session), repeated=repeated, logprobs=told)

    async def prompt_ids(
        self, messages: Sequence[Message], *, tools: Toolbox, reasoning: Reasoning | None = None
    ) -> tuple[int, ...]:
        """The tokens that the model would read for its next turn.

        Raises:
            InvalidInput: there is no message to answer.
            ContextOverflow: the messages alone do not fit.
        """
        instructions, rest = _split(messages)
        caller = self._caller(tools, instructions)
        size = num_characters(rest, instructions) + TOOL_CHARACTERS * len(tools)

        def work() -> tuple[int, ...]:
            check_fits(self.engine, rest, instructions)
            return caller.prompt(bound_results(rest), (), reasoning)

        return await prompt_work(size, work)

    @asynccontextmanager
    async def stream(self, messages: Sequence[Message], **options: Any) -> AsyncGenerator[Streaming[Response], None]:
        """Respond and watch: ``async with responder.stream(…) as turn: async for event in turn: …``.

        `options` are those of `respond`, without `emit`; `turn.result` is the response. Leaving the block early
        cancels the turn.

        Raises:
            AgentformError: what `respond` raises, where the events are read.
        """

        async def work(emit: Emit) -> Response:
            return await self.respond(messages, emit=emit, **options)

        async with streaming(work) as turn:
            yield turn

    def _caller(self, toolbox: Toolbox, instructions: str) -> TurnRunner:
        key = json.dumps([instructions, toolbox.definitions()])
        caller = self._callers.get(key)
        if caller is None or any(caller.targets[name] is not tool.target for name, tool in toolbox.items()):
            caller = TurnRunner(
                engine=self.engine,
                targets={name: tool.target for name, tool in toolbox.items()},
                instructions=instructions,
                scoring=self._scoring,
                reasoning=self._reasoning,
                priors=self._priors,
                decider=self._decider,
            )
        self._callers[key] = caller
        return caller


def _turn_options(toolbox: Toolbox, choice: ToolChoice) -> TurnOptions:
    if isinstance(choice, UseTool):
        return TurnOptions(may_answer=False, tool=toolbox[choice.name].name)
    if choice == "required" and not toolbox:
        raise InvalidInput("a call is required, but there are no tools")
    return TurnOptions(may_call=choice != "none", may_answer=choice != "required")


def _split(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """The instructions with which the messages begin, and the others."""
    num_system = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    if num_system == len(messages):
        raise InvalidInput("there is no message to answer: at least one must not be a system message")
    instructions = "\n\n".join(message.content for message in messages[:num_system] if message.content)
    return instructions, list(messages[num_system:])


def _response(turn: TurnResult, form: Target | None, session: Session) -> Response:
    finish = "calls" if turn.message.calls else "length" if turn.finish == "length" else "answer"
    response = Response(
        message=turn.message,
        finish=finish,
        usage=session.usage,
        prompt_usage=session.prompt_usage or Usage(),
        decision=turn.decision,
        stop=turn.stop,
    )
    if form is None or turn.filled is None:
        return response
    output = form.validator.build(turn.filled.value)
    return replace(response, output=output, evidence=turn.filled.evidence())


def _cut_off(content: str, thought: str, error: ArgumentsTruncated, session: Session) -> Response:
    return Response(
        message=Message(role="assistant", content=content.strip(), reasoning=thought),
        finish="length",
        usage=session.usage,
        prompt_usage=session.prompt_usage or Usage(),
        truncated=error,
    )


async def _logprobs(session: Session, turn: TurnResult, num_top: int) -> tuple[TokenLogprob, ...]:
    """Of the answer's tokens; calls have evidence instead."""
    if turn.message.calls or not turn.message.content:
        return ()
    ids = turn.token_ids[turn.num_before :]
    begin, end = ids_of_text(session.tokenizer, ids, turn.message.content)
    before = turn.token_ids[: turn.num_before + begin]
    return await token_logprobs(session, before, ids[begin:end], num_top=num_top)


class _Heard:
    """Hands events on, if anybody wants them, and keeps the free text and the thought.

    Where it may turn out that a turn is not to be what it became, its events are held until that is known.
    """

    def __init__(self, emit: Callable[[Event], Awaitable[None]] | None, *, hold: bool = False) -> None:
        self._emit = emit
        self._held: list[Event] | None = [] if hold else None
        self.text = ""
        self.thought = ""

    async def __call__(self, event: Event) -> None:
        if isinstance(event, ReasoningDelta | AnswerDelta):
            self.text += event.text
        if isinstance(event, ThoughtDelta):
            self.thought += event.text
        if self._held is not None:
            self._held.append(event)
        else:
            await self.tell(event)

    async def tell(self, event: Event) -> None:
        """Hand an event on at once."""
        if self._emit is not None:
            await self._emit(event)

    def forget(self) -> None:
        """Drop what was held, and hold nothing more."""
        self._held, self.text, self.thought = None, "", ""

    async def release(self) -> None:
        """Hand on what was held."""
        held, self._held = self._held or [], None
        for event in held:
            await self.tell(event)
