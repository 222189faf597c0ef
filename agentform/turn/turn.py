"""One turn of an agent: free text, then call or answer, then which tool, then its arguments."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property

from agentform._util.prefixes import common_prefix
from agentform.decoding.insertion_point import InsertionPoint, unframed
from agentform.decoding.prompt_work import TOOL_CHARACTERS, check_fits, num_characters, prompt_work
from agentform.decoding.session import Session
from agentform.decoding.token_context import Context, advance, continue_from, splice
from agentform.decoding.tool_format import Frame, ToolText, learn_frame
from agentform.events import AnswerDelta, ChoiceMade, Emit
from agentform.forms.answer import Question
from agentform.forms.draft import Filling, fill_form
from agentform.forms.label_prior import CONTENT_FREE, PriorStore
from agentform.forms.progress import Watch
from agentform.forms.refusal import RefusalPrompt
from agentform.forms.scoring import Priors, Scoring, choose, require_confidence
from agentform.messages import Evidence, JsonValue, Message, ToolCall
from agentform.runtime.engine import Branch, Engine, FinishReason
from agentform.schema.form import pointer
from agentform.schema.json_text import dumps, loads
from agentform.schema.target import Target
from agentform.turn.prose_calls import Recovered, recover
from agentform.turn.reasoning import Reasoning, Thought, think
from agentform.turn.types import TurnOptions, TurnResult

__all__ = ["TurnRunner"]

ANSWER = "answer"
"""The name under which "no tool" stands among the tools' names when the next step is chosen."""


@dataclass(frozen=True)
class _Beginning:
    """A turn up to the point where it becomes an answer."""

    prompt_ids: tuple[int, ...]
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
        size = num_characters(messages, self.instructions) + TOOL_CHARACTERS * len(self.targets)
        prompt_ids = await prompt_work(size, self._checked_prompt, messages, past)
        options = options or TurnOptions()
        if not (options.may_call and self._callable(options)):
            return await self._answer(session, messages, _Beginning(prompt_ids), options, emit)
        thought = await think(
            session,
            prompt_ids,
            reasoning=self.reasoning,
            marker=self.frame.marker,
            max_tokens=session.limits.reasoning_tokens,
            stop=options.stop if options.may_answer else (),
            emit=emit,
        )
        prose_call = None if thought.called or thought.stopped else recover(thought.content, self._callable(options))
        if prose_call is not None:
            return await self._recovered(session, thought, prose_call, emit)
        decision = await self._next_step(session, thought, options)
        await emit(ChoiceMade(decision=decision))
        if decision.value is not None or self.reasoning.prefix or options.form is not None:
            session.count_reasoning(thought.num_tokens)
        if decision.value is None:
            return await self._answer(session, messages, _Beginning(prompt_ids, thought, decision), options, emit)
        return await self._calls(session, messages, thought, decision, options, emit)

    def _callable(self, options: TurnOptions) -> Mapping[str, Target]:
        if options.tool is not None:
            return {options.tool: self.targets[options.tool]}
        return {name: target for name, target in self.targets.items() if name not in options.barred}

    async def _next_step(self, session: Session, thought: Thought, options: TurnOptions) -> Evidence:
        """The decision whether to call and which tool; its value is `None` for an answer."""
        if thought.stopped:
            return Evidence(pointer="", value=None, how="fixed")
        point = unframed(self._at_step(thought.context, self.frame.separator if thought.content else ""))
        return await self._which(session, point, options, answerable=options.may_answer and not thought.called)

    async def _which(
        self, session: Session, point: InsertionPoint, options: TurnOptions, *, answerable: bool
    ) -> Evidence:
        names = list(self._callable(options))
        if len(names) == 1 and not answerable:
            return Evidence(pointer="", value=names[0], how="fixed")
        question = self._step_question(names, answerable=answerable)
        priors = self._priors_at(lambda context: unframed(self._at_step(context, "")), "action")
        [answer] = await choose(session, point, [question], scoring=self.scoring, priors=priors)
        require_confidence([answer], session.limits)
        return answer.evidence()

    def _step_question(self, names: Sequence[str], *, answerable: bool) -> Question:
        labels = [*names, self._answer_name] if answerable else names
        before, after = (" ", "\n") if self.frame.step_lead else ("", self.frame.before_arguments)
        return Question(
            path=(),
            kind="action",
            lead="",
            texts=tuple(before + name + after for name in labels),
            groups=tuple(range(len(labels))),
            answers=(*names, None) if answerable else tuple(names),
        )

    def _at_step(self, context: Context, separator: str) -> Context:
        """The context where the next step is chosen; `separator` stands between the frame and what is before it."""
        if not self.frame.step_lead:
            return self._opened(context, separator)
        return context.with_text(("\n" if separator else "") + self.frame.step_lead)

    async def _answer(
        self, session: Session, messages: Sequence[Message], beginning: _Beginning, options: TurnOptions, emit: Emit
    ) -> TurnResult:
        """The free text is the answer, continued where its limit cut it off; after a note it is generated anew."""
        if options.form is not None:
            return await self._answer_with_form(session, messages, beginning, options.form, emit)
        content, ids = "", ()
        finish: FinishReason = "length"
        left, thought = session.limits.answer_tokens, beginning.thought
        if thought is not None and not self.reasoning.prefix:
            content, ids, finish = thought.text, thought.token_ids, thought.finish
            left -= session.limits.reasoning_tokens
        if finish == "length" and left > 0:
            # An answer is no call: text that would begin one is not let through as prose.
            stop = ((self.frame.marker,) if self._tools else ()) + options.stop
            prompt_ids = beginning.prompt_ids + ids
            async with aclosing(session.generate(prompt_ids, max_tokens=left, stop=stop)) as chunks:
                async for chunk in chunks:
                    content, ids, finish = content + chunk.text, ids + chunk.token_ids, chunk.finish or finish
                    if chunk.text:
                        await emit(AnswerDelta(text=chunk.text))
        message = Message(role="assistant", content=content.strip())
        return TurnResult(
            message=message, token_ids=beginning.prompt_ids + ids, finish=finish, decision=beginning.decision
        )

    async def _answer_with_form(
        self, session: Session, messages: Sequence[Message], beginning: _Beginning, form: Target, emit: Emit
    ) -> TurnResult:
        """The form is filled after the free text, if there is any, which counts as reasoning."""
        thought = beginning.thought
        point = unframed(Context(ids=beginning.prompt_ids))
        filling = Filling(
            target=form,
            point=point if thought is None else unframed(thought.context, spoken=bool(thought.content)),
            priors=self._priors_at(unframed, "form"),
            scoring=self.scoring,
            refusal=RefusalPrompt(messages=messages, point=lambda shown: unframed(Context(ids=self.prompt(shown)))),
            watch=Watch(emit=emit),
        )
        state = await fill_form(session, filling)
        end = filling.point.json().with_text(state.json_text)
        return TurnResult(
            message=Message(role="assistant", content=state.json_text),
            token_ids=end.ids + self.engine.tokenizer.encode(end.tail),
            finish="stop",
            decision=beginning.decision,
            filled=state,
        )

    async def _calls(
        self,
        session: Session,
        messages: Sequence[Message],
        thought: Thought,
        decision: Evidence,
        options: TurnOptions,
        emit: Emit,
    ) -> TurnResult:
        """The call that was decided on, and as many more as the model makes before it wants to see a result."""
        point = self._point_of(decision, thought.context, self.frame.separator if thought.content else None)
        call, end = await self._call(session, messages, thought.content, decision, point, emit)
        calls = [call]
        while len(calls) < session.limits.parallel_calls:
            session.begin_call()
            more = await self._another(session, end, options)
            if more is None:
                break
            await emit(ChoiceMade(decision=more))
            point = self._point_of(more, end, self.frame.between_calls)
            call, after_call = await self._call(session, messages, thought.content, more, point, emit)
            if any((other.name, other.arguments) == (call.name, call.arguments) for other in calls):
                break  # it has nothing new to ask for
            calls.append(call)
            end = after_call
        return self._called(thought.content, calls, end, thought.finish)

    async def _another(self, session: Session, end: Context, options: TurnOptions) -> Evidence | None:
        """The decision for one more call after the last one; `None` when the model wants to see results first."""
        point = unframed(self._at_step(end, self.frame.between_calls))
        if self.frame.step_lead:
            decision = await self._which(session, point, options, answerable=True)
            return None if decision.value is None else decision
        if not await self._goes_on(session, end):
            return None
        return await self._which(session, point, options, answerable=False)

    async def _goes_on(self, session: Session, end: Context) -> bool:
        """Whether the beginning of another call is more probable than the end of the turn."""
        encode = self.engine.tokenizer.encode
        done = encode(end.tail)
        line = encode(end.line(self.frame.between_calls + self.frame.marker), control=True)
        kept = common_prefix(done, line)
        ends = sorted(self.engine.tokenizer.eos_ids)
        # Where the last token would merge with what comes next, the turn ends only after that token was written.
        branch = Branch(path=(), candidates=(line[kept], *(ends if kept == len(done) else done[kept : kept + 1])))
        [scores] = await session.score(end.ids + done[:kept], [branch])
        return scores[0] > max(scores[1:])

    async def _call(
        self,
        session: Session,
        messages: Sequence[Message],
        content: str,
        decision: Evidence,
        point: InsertionPoint,
        emit: Emit,
    ) -> tuple[ToolCall, Context]:
        """The call with its arguments decided, and the context after it."""
        name = str(decision.value)
        call_id = _new_id()
        filling = Filling(
            target=self.targets[name],
            point=point,
            closing=self.frame.after_arguments,
            priors=self._priors_at(lambda context: self.arguments(context, name), name),
            scoring=self.scoring,
            refusal=RefusalPrompt(
                messages=messages,
                point=lambda shown: self.arguments(Context(ids=self.prompt(shown)), name),
                tool=name,
                content=content,
            ),
            watch=Watch(emit=emit, call_id=call_id, tool=name),
        )
        state = await fill_form(session, filling)
        call = ToolCall(
            id=call_id,
            name=name,
            arguments=_object(state.json_text),
            evidence=state.evidence(),
            decision=decision,
            usage=session.call_usage,
        )
        return call, self._after(point, state.json_text)

    async def _recovered(self, session: Session, thought: Thought, prose_call: Recovered, emit: Emit) -> TurnResult:
        """The call that the model wrote in its free text, put into the frame."""
        decision = Evidence(pointer="", value=prose_call.name, how="generated")
        await emit(ChoiceMade(decision=decision))
        session.count_reasoning(thought.num_tokens)
        context = continue_from(self.engine.tokenizer, thought.prompt_ids, thought.token_ids, prose_call.content)
        point = self._point_of(decision, context, self.frame.separator if prose_call.content else None)
        call = ToolCall(
            id=_new_id(),
            name=prose_call.name,
            arguments=_object(dumps(prose_call.arguments)),
            evidence=tuple(
                Evidence(pointer=pointer((name,)), value=value, how="generated")
                for name, value in prose_call.arguments.items()
            ),
            decision=decision,
            usage=session.call_usage,
        )
        return self._called(prose_call.content, [call], self._after(point, dumps(prose_call.arguments)), thought.finish)

    def _called(self, content: str, calls: Sequence[ToolCall], end: Context, finish: FinishReason) -> TurnResult:
        return TurnResult(
            message=Message(role="assistant", content=content, calls=tuple(calls)),
            token_ids=end.ids + self.engine.tokenizer.encode(end.tail),
            finish=finish,
            decision=calls[0].decision,
        )

    def _after(self, point: InsertionPoint, arguments: str) -> Context:
        """The context after a call with these arguments."""
        return advance(self.engine.tokenizer, point.json().with_text(arguments), self.frame.after_arguments)

    def _opened(self, context: Context, separator: str) -> Context:
        """The context where a tool's name begins."""
        return advance(self.engine.tokenizer, context, separator + self.frame.before_name)

    def _point_of(self, decision: Evidence, before: Context, separator: str | None) -> InsertionPoint:
        """Where the arguments of the call that was decided on begin; without `separator` nothing is said before."""
        spoken = separator is not None
        return self.arguments(before, str(decision.value), spoken=spoken, separator=separator)

    def arguments(
        self, before: Context, name: str, *, spoken: bool = False, separator: str | None = None
    ) -> InsertionPoint:
        """Where the arguments of a call to `name` begin.

        `separator` stands between the frame and what was said before it; by default what the frame has there.
        """
        seam = self.frame.separator if separator is None else separator

        def opened(context: Context, spoken: bool) -> Context:
            return self._opened(context, seam if spoken else "").with_text(name + self.frame.before_arguments)

        return InsertionPoint(before=before, opened=opened, spoken=spoken)

    def _priors_at(self, point: Callable[[Context], InsertionPoint], *identity: object) -> Priors:
        """Label priors measured at the same point after content-free messages."""
        points = [point(Context(ids=ids)) for ids in self._content_free_prompts]
        return Priors(self.priors, points, self.engine.info.digest, *identity)

    def _checked_prompt(self, messages: Sequence[Message], past: Sequence[int]) -> tuple[int, ...]:
        """Raises ContextOverflow before much is rendered that does not fit."""
        check_fits(self.engine, messages, self.instructions)
        if self.targets:
            _ = self._content_free_prompts  # here, as they hold the same instructions and tools
        return self.prompt(messages, past)

    @cached_property
    def _content_free_prompts(self) -> list[tuple[int, ...]]:
        return [self.prompt([Message(role="user", content=text)]) for text in CONTENT_FREE]


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex[:12]}"


def _object(text: str) -> Mapping[str, JsonValue]:
    arguments = loads(text)
    assert isinstance(arguments, Mapping)  # a tool's schema is an object, and the arguments satisfy it
    return arguments
