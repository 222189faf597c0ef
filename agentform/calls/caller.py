"""One turn of an agent: free text, then call or answer, then which tool, then its arguments."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentform.calls.choose import Priors, Scoring, choose, require_confidence
from agentform.calls.fill import Filling, evidence_of
from agentform.calls.frame import Frame, ToolText, learn_frame
from agentform.calls.prior import CONTENT_FREE, PriorStore
from agentform.calls.questions import Question
from agentform.calls.repair import fill_form
from agentform.calls.session import Session
from agentform.calls.transcript import Context, advance, continue_from, splice
from agentform.errors import Violation
from agentform.messages import (
    AnswerDelta,
    CallReady,
    ChoiceMade,
    Event,
    Evidence,
    Message,
    ReasoningDelta,
    ToolCall,
    ToolResult,
)
from agentform.runtime.engine import Engine, FinishReason
from agentform.schema.json_text import loads
from agentform.schema.load import Target

__all__ = ["Caller", "Turn"]

Emit = Callable[[Event], Awaitable[None]]
ANSWER = "answer"
"""The name under which "no tool" stands among the tools' names when the next step is chosen."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the model did in one turn."""

    message: Message
    """The assistant's message: free text, and the call if one was made."""
    token_ids: tuple[int, ...]
    """The conversation up to and including this turn, as the engine saw it."""
    finish: FinishReason
    """How the free text ended; `length` means that it was cut off."""
    decision: Evidence | None = None


@dataclass(frozen=True, kw_only=True)
class _Thought:
    """Free text with the context after it."""

    content: str
    context: Context
    finish: FinishReason
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]


@dataclass(kw_only=True)
class Caller:
    """Turns messages into the next assistant message. Holds nothing of a conversation, so it may be shared."""

    engine: Engine
    targets: Mapping[str, Target]
    """What each tool's arguments must satisfy, by tool name."""
    instructions: str = ""
    scoring: Scoring = field(default_factory=Scoring)
    priors: PriorStore = field(default_factory=PriorStore)

    def __post_init__(self) -> None:
        self.frame: Frame = learn_frame(self.engine.tokenizer)
        self._tools = [
            ToolText(name=name, description=target.description, form=target.form)
            for name, target in self.targets.items()
        ]
        self._answer_name = ANSWER
        while self._answer_name in self.targets:
            self._answer_name += "_"

    def prompt(self, messages: Sequence[Message], past: Sequence[int] = ()) -> tuple[int, ...]:
        """Token ids of the conversation up to the generation prompt; `past` is kept where it spells the same."""
        rendered = self.engine.tokenizer.render(
            self.frame.messages(messages, instructions=self.instructions, tools=self._tools),
            tools=self.frame.definitions(self._tools),
        )
        return splice(self.engine.tokenizer, past, rendered)

    async def turn(
        self, session: Session, messages: Sequence[Message], *, past: Sequence[int] = (), emit: Emit
    ) -> Turn:
        """Run one turn.

        Raises: what the engine raises, Abstained, ArgumentsTruncated and CallRejected.
        """
        thought = await self._think(session, self.prompt(messages, past), emit)
        decision = await self._next_step(session, thought)
        if decision is not None:
            await emit(ChoiceMade(decision=decision))
        if decision is None or decision.value is None:
            return await self._answer(session, thought, decision, emit)
        return await self._call(session, messages, thought, decision, emit)

    async def _think(self, session: Session, prompt_ids: tuple[int, ...], emit: Emit) -> _Thought:
        text = ""
        ids: tuple[int, ...] = ()
        finish: FinishReason = "length"
        stop = (self.frame.marker,) if self._tools else ()
        limit = session.limits.reasoning_tokens if self._tools else session.limits.answer_tokens
        async for chunk in session.generate(prompt_ids, max_tokens=limit, stop=stop):
            text, ids, finish = text + chunk.text, ids + chunk.token_ids, chunk.finish or finish
            if chunk.text:
                await emit(ReasoningDelta(text=chunk.text))
        content = text.strip() if text.startswith((" ", "\n")) else text.rstrip()
        context = continue_from(self.engine.tokenizer, prompt_ids, ids, content)
        return _Thought(content=content, context=context, finish=finish, prompt_ids=prompt_ids, token_ids=ids)

    async def _next_step(self, session: Session, thought: _Thought) -> Evidence | None:
        """The decision whether to call and which tool; `None` when there is no tool to call."""
        if not self._tools:
            return None
        names = [tool.name for tool in self._tools]
        called = thought.finish == "stop"
        if called and len(names) == 1:
            return Evidence(pointer="", value=names[0], how="fixed")
        options = names if called else [*names, self._answer_name]
        question = Question(
            path=(),
            kind="action",
            lead="",
            texts=tuple(name + self.frame.before_arguments for name in options),
            groups=tuple(range(len(options))),
            answers=(*names, *(() if called else (None,))),
        )
        priors = self._priors_at(lambda context: self._opened(context, ""), "action")
        context = self._opened(thought.context, thought.content)
        [answer] = await choose(session, context, [question], scoring=self.scoring, priors=priors)
        require_confidence([answer], session.limits)
        return answer.evidence()

    async def _answer(self, session: Session, thought: _Thought, decision: Evidence | None, emit: Emit) -> Turn:
        """The free text is the answer; where its limit cut it off, it goes on to the limit of an answer."""
        content, ids, finish = thought.content, thought.token_ids, thought.finish
        left = session.limits.answer_tokens - session.limits.reasoning_tokens
        if finish == "length" and self._tools and left > 0:
            async for chunk in session.generate(thought.prompt_ids + ids, max_tokens=left):
                content, ids, finish = content + chunk.text, ids + chunk.token_ids, chunk.finish or finish
                if chunk.text:
                    await emit(AnswerDelta(text=chunk.text))
        return Turn(
            message=Message(role="assistant", content=content),
            token_ids=thought.prompt_ids + ids,
            finish=finish,
            decision=decision,
        )

    async def _call(
        self,
        session: Session,
        messages: Sequence[Message],
        thought: _Thought,
        decision: Evidence,
        emit: Emit,
    ) -> Turn:
        name = str(decision.value)
        target = self.targets[name]
        filling = Filling(
            target=target,
            context=self.at_arguments(thought.context, thought.content, name),
            closing=self.frame.after_arguments,
            priors=self._priors_at(lambda context: self.at_arguments(context, "", name), name),
            scoring=self.scoring,
            retry=_Retry(self, messages, thought.content, name).context,
        )
        draft = await fill_form(session, filling)
        arguments = draft.value
        assert isinstance(arguments, Mapping)  # a tool's schema is an object, and the draft satisfies it
        call = ToolCall(
            id=f"call_{uuid.uuid4().hex[:12]}",
            name=name,
            arguments=arguments,
            evidence=evidence_of(target.form.root, draft),
            decision=decision,
            usage=session.usage,
        )
        await emit(CallReady(call=call))
        end = advance(
            self.engine.tokenizer,
            filling.context.with_text(draft.written.text),
            self.frame.after_arguments,
        )
        ids = end.ids + self.engine.tokenizer.encode(end.tail)
        message = Message(role="assistant", content=thought.content, calls=(call,))
        return Turn(message=message, token_ids=ids, finish=thought.finish, decision=decision)

    def _opened(self, context: Context, content: str) -> Context:
        """The context where a tool's name begins."""
        separator = self.frame.separator if content else ""
        return advance(self.engine.tokenizer, context, separator + self.frame.before_name)

    def at_arguments(self, context: Context, content: str, name: str) -> Context:
        """The context where the arguments of a call to `name` begin."""
        return self._opened(context, content).with_text(name + self.frame.before_arguments)

    def _priors_at(self, place: Callable[[Context], Context], *identity: object) -> Priors:
        """Label priors measured at the same place after content-free messages."""
        prompts = [self.prompt([Message(role="user", content=text)]) for text in CONTENT_FREE]
        contexts = [place(Context(ids=ids)) for ids in prompts]
        return Priors(self.priors, contexts, self.engine.info.digest, *identity)

    def retry_prompt(self, messages: Sequence[Message], refused: Message, result: ToolResult) -> tuple[int, ...]:
        """The conversation with a refused call and the reason for its refusal at its end."""
        reply = Message(role="tool", content=result.content, result=result)
        return self.prompt([*messages, refused, reply])


@dataclass(frozen=True)
class _Retry:
    """Where a refused call is decided again: after a turn that shows it and says what was wrong."""

    caller: Caller
    messages: Sequence[Message]
    content: str
    name: str

    async def context(self, arguments: str, violations: Sequence[Violation]) -> Context:
        value = loads(arguments)
        call = ToolCall(id="refused", name=self.name, arguments=value if isinstance(value, dict) else {})
        reasons = "; ".join(f"{v.pointer or 'arguments'}: {v.reason}" for v in violations)
        result = ToolResult(call_id=call.id, name=self.name, content=f"Invalid: {reasons}", is_error=True)
        refused = Message(role="assistant", content=self.content, calls=(call,))
        prompt = self.caller.retry_prompt(self.messages, refused, result)
        return self.caller.at_arguments(Context(ids=prompt), "", self.name)
