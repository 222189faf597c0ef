"""One turn of an agent: free text, then call or answer, then which tool, then its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import cached_property

from agentform.decoding.call_results import bound_results
from agentform.decoding.formats.framing import CallFraming
from agentform.decoding.formats.spelling import key_order
from agentform.decoding.insertion_point import InsertionPoint, unframed
from agentform.decoding.prompt_work import TOOL_CHARACTERS, check_fits, num_characters, prompt_work
from agentform.decoding.session import Session
from agentform.decoding.thinking import SettledPrompt, settle, template_arguments, think_first
from agentform.decoding.token_context import TokenContext, continue_from, splice
from agentform.decoding.tool_format import (
    ToolCallFormat,
    ToolText,
    conversation,
    format_of,
)
from agentform.events import AnswerDelta, ChoiceMade, Emit
from agentform.forms.decider import Decider
from agentform.forms.draft import Filling, fill_form
from agentform.forms.elsewhere import Elsewhere
from agentform.forms.label_prior import CONTENT_FREE, PriorStore
from agentform.forms.progress import Watch
from agentform.forms.refusal import RefusalPrompt
from agentform.forms.scoring import Priors, Scoring
from agentform.grammar.spec import GrammarSpec
from agentform.messages import Evidence, JsonValue, Message, ToolCall
from agentform.runtime.engine import Engine, FinishReason
from agentform.schema.field_order import with_field_order
from agentform.schema.form import pointer
from agentform.schema.json_text import dumps, loads
from agentform.schema.target import Target
from agentform.turn.call_placement import CallPlacement
from agentform.turn.next_step import (
    ANSWER,
    another_call_mass,
    answered,
    call_mass,
    choose_step,
    choose_tool,
    require_sure,
)
from agentform.turn.plain_words import plain_words, text_within
from agentform.turn.prose_calls import Recovered, recover, text_before_call
from agentform.turn.reasoning import Reasoning, Thought, think
from agentform.turn.step_elsewhere import step_elsewhere, turn_state
from agentform.turn.types import TurnOptions, TurnResult
from agentform.turn.written_step import write_step

__all__ = ["TurnRunner"]


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What a turn was asked for."""

    messages: Sequence[Message]
    options: TurnOptions
    reasoning: Reasoning
    emit: Emit


@dataclass(frozen=True)
class _Beginning:
    """A turn up to the point where it becomes an answer."""

    settled: SettledPrompt
    thought: Thought | None = None
    decision: Evidence | None = None


@dataclass(kw_only=True)
class TurnRunner:
    """Turns messages into the next assistant message. Holds nothing of a conversation, so it may be shared."""

    engine: Engine
    targets: Mapping[str, Target]
    """What each tool's arguments must satisfy, by tool name."""
    instructions: str = ""
    scoring: Scoring = field(default_factory=Scoring)
    reasoning: Reasoning = field(default_factory=Reasoning)
    priors: PriorStore = field(default_factory=PriorStore)
    decider: Decider | None = None
    """Who is asked first which step is next, and what closed arguments are."""

    def __post_init__(self) -> None:
        self.format: ToolCallFormat = format_of(self.engine.tokenizer)
        self.places = CallPlacement(self.engine.tokenizer, self.format)
        order = key_order(self.format.arguments)
        self._ordered = {name: with_field_order(target, order) for name, target in self.targets.items()}
        self._tools = [
            ToolText(name=name, description=target.description, form=target.form)
            for name, target in self.targets.items()
        ]
        self._answer_name = ANSWER
        while self._answer_name in self.targets:
            self._answer_name += "_"

    def prompt(
        self, messages: Sequence[Message], past: Sequence[int] = (), reasoning: Reasoning | None = None
    ) -> tuple[int, ...]:
        """Token ids of the conversation up to the generation prompt; `past` is kept where it spells the same."""
        arguments = template_arguments(self.format, reasoning or self.reasoning)
        prompt = conversation(
            self.format, messages, instructions=self.instructions, tools=self._tools, arguments=arguments
        )
        rendered = prompt.ids(self.engine.tokenizer)
        return splice(self.engine.tokenizer, past, rendered)

    async def turn(
        self,
        session: Session,
        messages: Sequence[Message],
        *,
        past: Sequence[int] = (),
        options: TurnOptions | None = None,
        emit: Emit,
    ) -> TurnResult:
        """Run one turn.

        Raises:
            AgentformError: what the engine raises, and every CallError.
        """
        session.begin_turn()
        messages = bound_results(messages)
        size = num_characters(messages, self.instructions) + TOOL_CHARACTERS * len(self.targets)
        options = options or TurnOptions()
        reasoning = options.reasoning or self.reasoning
        request = _Request(messages=messages, options=options, reasoning=reasoning, emit=emit)
        prompt_ids = await prompt_work(size, self._checked_prompt, messages, past, reasoning)
        settled = await think_first(session, self.format, prompt_ids, reasoning, emit=emit)
        if not (options.may_call and self._callable(options)):
            return await self._answer(session, request, _Beginning(settled))
        thought = await think(
            session,
            settled.ids,
            reasoning=reasoning,
            markers=self.format.marks,
            max_tokens=0 if settled.before_text(self.format) else session.limits.reasoning_tokens,
            stop=options.stop if options.may_answer else (),
            ends=self.format.result_marks,
            emit=emit,
        )
        prose_call = None if thought.called or thought.stopped else recover(thought.content, self._callable(options))
        if prose_call is not None:
            return await self._recovered(session, request, settled, thought, prose_call)
        thought = self._meant(settled, thought)
        decision = await self._next_step(session, request, settled, thought)
        await emit(ChoiceMade(decision=decision))
        if decision.value is not None or reasoning.prefix or options.is_formed:
            session.count_reasoning(thought.num_tokens)
        if decision.value is None:
            return await self._answer(session, request, _Beginning(settled, thought, decision))
        return await self._calls(session, request, settled, thought, decision)

    def _meant(self, settled: SettledPrompt, thought: Thought) -> Thought:
        """The free text up to a call that the model wrote in other marks than its own, or of a tool it made up."""
        before = text_before_call(thought.content) if self.format.native and not thought.stopped else None
        if before is None or thought.called:
            return thought
        context = continue_from(self.engine.tokenizer, settled.ids, thought.token_ids, before)
        return replace(thought, content=before, text=before, context=context, called=True)

    def _callable(self, options: TurnOptions) -> Mapping[str, Target]:
        if options.tool is not None:
            return {options.tool: self.targets[options.tool]}
        return {name: target for name, target in self.targets.items() if name not in options.barred}

    async def _next_step(
        self, session: Session, request: _Request, settled: SettledPrompt, thought: Thought
    ) -> Evidence:
        """The decision whether to call and which tool; its value is `None` for an answer."""
        options = request.options
        if thought.stopped:
            return Evidence(pointer="", value=None, how="fixed")
        answerable = options.may_answer and not thought.called
        if self.decider is not None:
            state = turn_state(request.messages, self.instructions, thought.content)
            answer = self._answer_name if answerable else None
            decided = await step_elsewhere(session, self.decider, state, self._callable(options), answer=answer)
            if decided is not None:
                return decided
        if self.format.step_lead or not self.engine.info.scores:
            return await self._step(session, thought.context, bool(thought.content), options, answerable=answerable)
        opening = settled.before_calls(self.format, after_text=bool(thought.content))
        first = opening + CallFraming(format=self.format).before_name
        called, answer = 1.0, 0.0
        text_open = self.format.text_open
        shared = text_open.startswith(first)  # an answer goes on where a call's name would stand
        if answerable and not shared:
            mass = await call_mass(session, self.format, thought.context, first)
            called, answer = mass.call, mass.answer(ended=thought.finish == "eos")
            if called <= answer:
                return require_sure(answered(called, answer), session.limits)
        other = text_open.removeprefix(first) or None if answerable and shared else None
        before = self.places.name(thought.context, opening)
        return await self._tool(session, before, options, called=called, answer=answer, other=other)

    async def _tool(
        self,
        session: Session,
        before: TokenContext,
        options: TurnOptions,
        *,
        called: float = 1.0,
        answer: float = 0.0,
        other: str | None = None,
    ) -> Evidence:
        """Which tool is called, `before` being where its name would stand."""
        following = self.places.after_name
        names = list(self._callable(options))
        return await choose_tool(session, before, names, following, other=other, called=called, answer=answer)

    async def _step(
        self, session: Session, context: TokenContext, spoken: bool, options: TurnOptions, *, answerable: bool
    ) -> Evidence:
        """The next step of a model that was not trained for calls: asked on a line of its own."""
        lead = self.format.step_lead
        names, answer = list(self._callable(options)), self._answer_name if answerable else None
        if not self.engine.info.scores:
            return await write_step(session, context, names, lead=("\n" if spoken else "") + lead, answer=answer)
        return await choose_step(
            session,
            context,
            names,
            lead=("\n" if spoken else "") + lead,
            answer=answer,
            scoring=self.scoring,
            priors=lambda: self._priors_at(
                lambda empty: unframed(TokenContext(ids=self._settled(empty).ids, tail=lead)), "action"
            ),
        )

    async def _answer(self, session: Session, request: _Request, beginning: _Beginning) -> TurnResult:
        """The free text is the answer, continued where its limit cut it off; after a note it is generated anew."""
        options, emit = request.options, request.emit
        if options.form is not None:
            return await self._answer_with_form(session, request, beginning, options.form)
        if options.grammar is not None:
            return await self._answer_in_grammar(session, request, beginning, options.grammar)
        content, ids, ended_by = "", (), None
        finish: FinishReason = "length"
        start = self.places.text_start(beginning.settled)
        left, thought = session.limits.answer_tokens, beginning.thought
        if thought is not None and not request.reasoning.prefix:
            content, ids, finish = thought.text, thought.token_ids, thought.finish
            ended_by = thought.ended_by
            left -= session.limits.reasoning_tokens
        if finish == "length" and left > 0:
            # An answer is no call: text that would begin one is not let through as prose.
            stop = (self.format.marks + self.format.result_marks if self._tools else ()) + options.stop
            prompt_ids = start + ids
            async with aclosing(session.generate(prompt_ids, max_tokens=left, stop=stop)) as chunks:
                async for chunk in chunks:
                    content, ids, finish = content + chunk.text, ids + chunk.token_ids, chunk.finish or finish
                    ended_by = chunk.stop or ended_by
                    if chunk.text:
                        await emit(AnswerDelta(text=chunk.text))
        # To a model that was not trained for calls such text is an example, which is text.
        before = text_before_call(content) if self._tools and self.format.native else None
        if before is not None:  # a call that it may not make is no answer either
            content, ids, finish = before, self.engine.tokenizer.encode(before), "stop"
        if not content.strip() and (before is not None or ended_by in self.format.result_marks):
            content, ids, finish = await plain_words(session, start, emit)
        return TurnResult(
            message=Message(role="assistant", content=content.strip(), reasoning=beginning.settled.thought),
            token_ids=start + ids,
            finish=finish,
            decision=beginning.decision,
            num_before=len(start),
            stop=ended_by if finish == "stop" and ended_by in options.stop else None,
        )

    async def _answer_in_grammar(
        self, session: Session, request: _Request, beginning: _Beginning, grammar: GrammarSpec
    ) -> TurnResult:
        """Text that matches a grammar, written after the free text, if there is any, which counts as reasoning."""
        thought = beginning.thought
        start = TokenContext(ids=self.places.text_start(beginning.settled))
        if thought is not None and thought.content:
            start = thought.context.with_text("\n")
        before = start.token_ids(self.engine.tokenizer)
        content, ids, finish = await text_within(session, before, grammar, request.emit)
        return TurnResult(
            message=Message(role="assistant", content=content.strip(), reasoning=beginning.settled.thought),
            token_ids=before + ids,
            finish=finish,
            decision=beginning.decision,
            num_before=len(before),
        )

    async def _answer_with_form(
        self, session: Session, request: _Request, beginning: _Beginning, form: Target
    ) -> TurnResult:
        """The form is filled after the free text, if there is any, which counts as reasoning."""
        thought = beginning.thought
        spoken = thought is not None and bool(thought.content)
        start = TokenContext(ids=self.places.text_start(beginning.settled))
        filling = Filling(
            target=form,
            point=unframed(thought.context if thought is not None and spoken else start, spoken=spoken),
            priors=self._priors_at(self._text_point, "form"),
            scoring=self.scoring,
            refusal=RefusalPrompt(
                messages=request.messages, point=lambda shown: self._text_point(self._shown(request, shown))
            ),
            watch=Watch(emit=request.emit),
            elsewhere=self._elsewhere(request, thought.content if thought is not None else "", form),
        )
        state = await fill_form(session, filling)
        end = filling.point.json().with_text(state.json_text)
        return TurnResult(
            message=Message(role="assistant", content=state.json_text, reasoning=beginning.settled.thought),
            token_ids=end.ids + self.engine.tokenizer.encode(end.tail),
            finish="stop",
            decision=beginning.decision,
            filled=state,
            num_before=len(filling.point.json().ids),
        )

    async def _calls(
        self, session: Session, request: _Request, settled: SettledPrompt, thought: Thought, decision: Evidence
    ) -> TurnResult:
        """The call that was decided on, and as many more as the model makes before it wants to see a result."""
        opening = settled.before_calls(self.format, after_text=bool(thought.content))
        calls: list[ToolCall] = []
        end = thought.context
        while True:
            framing = self.places.framing(request.messages, str(decision.value), len(calls))
            point = self.places.arguments(
                end, framing, str(decision.value), opening, spoken=bool(calls or thought.content)
            )
            call, after_call = await self._call(session, request, thought.content, decision, framing, point)
            if any((made.name, made.arguments) == (call.name, call.arguments) for made in calls):
                break  # it has nothing new to ask for
            calls.append(call)
            end = after_call
            if len(calls) >= self._most_calls(session):
                break
            session.begin_call()
            more = await self._another(session, end, request.options)
            if more is None:
                break
            await request.emit(ChoiceMade(decision=more))
            decision, opening = more, self.format.layout.between
        return self._called(settled, thought.content, calls, end, thought.finish)

    def _most_calls(self, session: Session) -> int:
        allowed = self.format.layout.max_calls
        most = session.limits.parallel_calls
        return most if allowed is None else min(most, allowed)

    async def _another(self, session: Session, end: TokenContext, options: TurnOptions) -> Evidence | None:
        """The decision for one more call after the last one; `None` when the model wants to see results first."""
        if self.format.step_lead or not self.engine.info.scores:
            decision = await self._step(session, end, True, options, answerable=True)
            return None if decision.value is None else decision
        mass = await another_call_mass(session, self.format, end)
        if mass.call <= mass.end:
            return None
        before = self.places.name(end, self.format.layout.between)
        return await self._tool(session, before, options, called=mass.call, answer=mass.end)

    async def _call(
        self,
        session: Session,
        request: _Request,
        content: str,
        decision: Evidence,
        framing: CallFraming,
        point: InsertionPoint,
    ) -> tuple[ToolCall, TokenContext]:
        """The call with its arguments decided, and the context after it."""
        name = str(decision.value)
        filling = Filling(
            target=self._ordered[name],
            point=point,
            closing=framing.after_arguments + self.format.layout.section_close,
            priors=self._priors_at(lambda context: self.places.first_arguments(context, name), name),
            scoring=self.scoring,
            refusal=RefusalPrompt(
                messages=request.messages,
                point=lambda shown: self.places.first_arguments(self._shown(request, shown), name),
                tool=name,
                content=content,
            ),
            watch=Watch(emit=request.emit, call_id=framing.id, tool=name),
            elsewhere=self._elsewhere(request, content, self._ordered[name], f"Arguments of the call {name}."),
        )
        state = await fill_form(session, filling)
        call = ToolCall(
            id=framing.id,
            name=name,
            arguments=_object(state.json_text),
            evidence=state.evidence(),
            decision=decision,
            usage=session.call_usage,
        )
        return call, self.places.after(point, framing, state.json_text)

    async def _recovered(
        self, session: Session, request: _Request, settled: SettledPrompt, thought: Thought, prose_call: Recovered
    ) -> TurnResult:
        """The call that the model wrote in its free text, put into the frame."""
        decision = Evidence(pointer="", value=prose_call.name, how="generated")
        await request.emit(ChoiceMade(decision=decision))
        session.count_reasoning(thought.num_tokens)
        context = continue_from(self.engine.tokenizer, thought.prompt_ids, thought.token_ids, prose_call.content)
        framing = self.places.framing(request.messages, prose_call.name, 0)
        opening = settled.before_calls(self.format, after_text=bool(prose_call.content))
        point = self.places.arguments(context, framing, prose_call.name, opening, spoken=bool(prose_call.content))
        call = ToolCall(
            id=framing.id,
            name=prose_call.name,
            arguments=_object(dumps(prose_call.arguments)),
            evidence=tuple(
                Evidence(pointer=pointer((name,)), value=value, how="generated")
                for name, value in prose_call.arguments.items()
            ),
            decision=decision,
            usage=session.call_usage,
        )
        end = self.places.after(point, framing, dumps(prose_call.arguments))
        return self._called(settled, prose_call.content, [call], end, thought.finish)

    def _elsewhere(self, request: _Request, said: str, target: Target, about: str = "") -> Elsewhere | None:
        if self.decider is None:
            return None
        state = turn_state(request.messages, self.instructions, said)
        return Elsewhere(decider=self.decider, state=state, about=" ".join(filter(None, (about, target.description))))

    def _called(
        self, settled: SettledPrompt, content: str, calls: Sequence[ToolCall], end: TokenContext, finish: FinishReason
    ) -> TurnResult:
        end = self.places.closed(end)
        return TurnResult(
            message=Message(role="assistant", content=content, calls=tuple(calls), reasoning=settled.thought),
            token_ids=end.ids + self.engine.tokenizer.encode(end.tail),
            finish=finish,
            decision=calls[0].decision,
        )

    def _text_point(self, prompt: TokenContext) -> InsertionPoint:
        """Where a form that is an answer begins after a prompt; a thought that it opens is closed at once."""
        return unframed(TokenContext(ids=self.places.text_start(self._settled(prompt))))

    def _settled(self, prompt: TokenContext) -> SettledPrompt:
        return settle(self.engine.tokenizer, self.format, prompt.ids)

    def _shown(self, request: _Request, messages: Sequence[Message]) -> TokenContext:
        """The prompt of these messages, rendered as the turn's own."""
        return TokenContext(ids=self.prompt(messages, reasoning=request.reasoning))

    def _priors_at(self, point: Callable[[TokenContext], InsertionPoint], *identity: object) -> Priors:
        """Label priors measured at the same place after content-free messages."""
        points = [point(TokenContext(ids=ids)) for ids in self._content_free_prompts]
        return Priors(self.priors, self.engine, points, *identity)

    def _checked_prompt(
        self, messages: Sequence[Message], past: Sequence[int], reasoning: Reasoning
    ) -> tuple[int, ...]:
        """The prompt, checked before much is rendered that does not fit.

        Raises:
            ContextOverflow: the messages alone do not fit.
        """
        check_fits(self.engine, messages, self.instructions)
        if self.targets:
            _ = self._content_free_prompts  # here, as they hold the same instructions and tools
        return self.prompt(messages, past, reasoning)

    @cached_property
    def _content_free_prompts(self) -> list[tuple[int, ...]]:
        return [self.prompt([Message(role="user", content=text)]) for text in CONTENT_FREE]


def _object(text: str) -> Mapping[str, JsonValue]:
    arguments = loads(text)
    assert isinstance(arguments, Mapping)  # a tool's schema is an object, and the arguments satisfy it
    return arguments
