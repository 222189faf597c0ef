"""One turn of an agent: free text, then call or answer, then which tool, then its arguments."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property

from agentform._util.prefixes import common_prefix
from agentform.decoding.insertion_point import Place, after, at
from agentform.decoding.session import Session
from agentform.decoding.token_context import Context, advance, continue_from, splice
from agentform.decoding.tool_format import Frame, ToolText, learn_frame
from agentform.events import AnswerDelta, ChoiceMade, Emit
from agentform.forms.draft import Filling, evidence_of
from agentform.forms.label_prior import CONTENT_FREE, PriorStore
from agentform.forms.progress import Watch
from agentform.forms.questions import Question
from agentform.forms.repair import fill_form
from agentform.forms.scoring import Priors, Scoring, choose, require_confidence
from agentform.messages import Evidence, JsonValue, Message, ToolCall
from agentform.runtime.engine import Branch, Engine, FinishReason
from agentform.schema.form import pointer
from agentform.schema.json_text import dumps, loads
from agentform.schema.target import Target
from agentform.turn.prose_calls import Recovered, recover
from agentform.turn.reasoning import Reasoning, Thought, think
from agentform.turn.retry import CallRetry, FormRetry
from agentform.turn.types import Aim, Turn

__all__ = ["Caller"]

ANSWER = "answer"
"""The name under which "no tool" stands among the tools' names when the next step is chosen."""


@dataclass(frozen=True)
class _Spoken:
    """A turn up to the point where it becomes an answer."""

    prompt_ids: tuple[int, ...]
    thought: Thought | None = None
    decision: Evidence | None = None


@dataclass(kw_only=True)
class Caller:
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
        aim: Aim | None = None,
        emit: Emit,
    ) -> Turn:
        """Run one turn.

        Raises: what the engine raises, and every CallError.
        """
        session.begin_turn()
        prompt_ids = self.prompt(messages, past)
        aim = aim or Aim()
        if not (aim.may_call and self._callable(aim)):
            return await self._answer(session, messages, _Spoken(prompt_ids), aim, emit)
        thought = await think(
            session,
            prompt_ids,
            reasoning=self.reasoning,
            marker=self.frame.marker,
            max_tokens=session.limits.reasoning_tokens,
            stop=aim.stop if aim.may_answer else (),
            emit=emit,
        )
        found = None if thought.called or thought.stopped else recover(thought.content, self._callable(aim))
        if found is not None:
            return await self._recovered(session, thought, found, emit)
        decision = await self._next_step(session, thought, aim)
        await emit(ChoiceMade(decision=decision))
        if decision.value is not None or self.reasoning.prefix or aim.form is not None:
            session.count_reasoning(thought.num_tokens)
        if decision.value is None:
            return await self._answer(session, messages, _Spoken(prompt_ids, thought, decision), aim, emit)
        return await self._calls(session, messages, thought, decision, aim, emit)

    def _callable(self, aim: Aim) -> Mapping[str, Target]:
        if aim.tool is not None:
            return {aim.tool: self.targets[aim.tool]}
        return {name: target for name, target in self.targets.items() if name not in aim.barred}

    async def _next_step(self, session: Session, thought: Thought, aim: Aim) -> Evidence:
        """The decision whether to call and which tool; its value is `None` for an answer."""
        if thought.stopped:
            return Evidence(pointer="", value=None, how="fixed")
        place = at(self._at_step(thought.context, self.frame.separator if thought.content else ""))
        return await self._which(session, place, aim, answerable=aim.may_answer and not thought.called)

    async def _which(self, session: Session, place: Place, aim: Aim, *, answerable: bool) -> Evidence:
        names = list(self._callable(aim))
        if len(names) == 1 and not answerable:
            return Evidence(pointer="", value=names[0], how="fixed")
        question = self._step_question(names, answerable=answerable)
        priors = self._priors_at(lambda context: at(self._at_step(context, "")), "action")
        [answer] = await choose(session, place, [question], scoring=self.scoring, priors=priors)
        require_confidence([answer], session.limits)
        return answer.evidence()

    def _step_question(self, names: Sequence[str], *, answerable: bool) -> Question:
        options = [*names, self._answer_name] if answerable else names
        before, after = (" ", "\n") if self.frame.step_lead else ("", self.frame.before_arguments)
        return Question(
            path=(),
            kind="action",
            lead="",
            texts=tuple(before + name + after for name in options),
            groups=tuple(range(len(options))),
            answers=(*names, None) if answerable else tuple(names),
        )

    def _at_step(self, context: Context, separator: str) -> Context:
        """The context where the next step is chosen; `separator` stands between the frame and what is before it."""
        if not self.frame.step_lead:
            return self._opened(context, separator)
        return context.with_text(("\n" if separator else "") + self.frame.step_lead)

    async def _answer(
        self, session: Session, messages: Sequence[Message], spoken: _Spoken, aim: Aim, emit: Emit
    ) -> Turn:
        """The free text is the answer, continued where its limit cut it off; after a note it is generated anew."""
        if aim.form is not None:
            return await self._answer_with_form(session, messages, spoken, aim.form, emit)
        content, ids = "", ()
        finish: FinishReason = "length"
        left, thought = session.limits.answer_tokens, spoken.thought
        if thought is not None and not self.reasoning.prefix:
            content, ids, finish = thought.text, thought.token_ids, thought.finish
            left -= session.limits.reasoning_tokens
        if finish == "length" and left > 0:
            # An answer is no call: text that would begin one is not let through as prose.
            stop = ((self.frame.marker,) if self._tools else ()) + aim.stop
            prompt_ids = spoken.prompt_ids + ids
            async with aclosing(session.generate(prompt_ids, max_tokens=left, stop=stop)) as chunks:
                async for chunk in chunks:
                    content, ids, finish = content + chunk.text, ids + chunk.token_ids, chunk.finish or finish
                    if chunk.text:
                        await emit(AnswerDelta(text=chunk.text))
        message = Message(role="assistant", content=content.strip())
        return Turn(message=message, token_ids=spoken.prompt_ids + ids, finish=finish, decision=spoken.decision)

    async def _answer_with_form(
        self, session: Session, messages: Sequence[Message], spoken: _Spoken, form: Target, emit: Emit
    ) -> Turn:
        """The form is filled after the free text, if there is any, which counts as reasoning."""
        thought = spoken.thought
        filling = Filling(
            target=form,
            place=at(Context(ids=spoken.prompt_ids)) if thought is None else after(thought.context, thought.content),
            priors=self._priors_at(at, "form"),
            scoring=self.scoring,
            retry=FormRetry(self, messages).place,
            watch=Watch(emit=emit),
        )
        draft = await fill_form(session, filling)
        end = filling.place.json().with_text(draft.written.text)
        return Turn(
            message=Message(role="assistant", content=draft.written.text),
            token_ids=end.ids + self.engine.tokenizer.encode(end.tail),
            finish="stop",
            decision=spoken.decision,
            filled=draft,
        )

    async def _calls(
        self,
        session: Session,
        messages: Sequence[Message],
        thought: Thought,
        decision: Evidence,
        aim: Aim,
        emit: Emit,
    ) -> Turn:
        """The call that was decided on, and as many more as the model makes before it wants to see a result."""
        place = self._place_of(decision, thought.context, self.frame.separator if thought.content else None)
        call, end = await self._call(session, messages, thought.content, decision, place, emit)
        calls = [call]
        while len(calls) < session.limits.parallel_calls:
            session.begin_call()
            more = await self._another(session, end, aim)
            if more is None:
                break
            await emit(ChoiceMade(decision=more))
            place = self._place_of(more, end, self.frame.between_calls)
            call, after_call = await self._call(session, messages, thought.content, more, place, emit)
            if any((made.name, made.arguments) == (call.name, call.arguments) for made in calls):
                break  # it has nothing new to ask for
            calls.append(call)
            end = after_call
        return self._called(thought.content, calls, end, thought.finish)

    async def _another(self, session: Session, end: Context, aim: Aim) -> Evidence | None:
        """The decision for one more call after the last one; `None` when the model wants to see results first."""
        place = at(self._at_step(end, self.frame.between_calls))
        if self.frame.step_lead:
            decision = await self._which(session, place, aim, answerable=True)
            return None if decision.value is None else decision
        if not await self._goes_on(session, end):
            return None
        return await self._which(session, place, aim, answerable=False)

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
        place: Place,
        emit: Emit,
    ) -> tuple[ToolCall, Context]:
        """The call with its arguments decided, and the context after it."""
        name = str(decision.value)
        call_id = _new_id()
        filling = Filling(
            target=self.targets[name],
            place=place,
            closing=self.frame.after_arguments,
            priors=self._priors_at(lambda context: self.arguments(context, name), name),
            scoring=self.scoring,
            retry=CallRetry(self, messages, content, name).place,
            watch=Watch(emit=emit, call_id=call_id, tool=name),
        )
        draft = await fill_form(session, filling)
        evidence = evidence_of(filling.target.form.root, draft)
        call = ToolCall(
            id=call_id,
            name=name,
            arguments=_object(draft.written.text),
            evidence=evidence,
            decision=decision,
            usage=session.call_usage,
        )
        return call, self._after(place, draft.written.text)

    async def _recovered(self, session: Session, thought: Thought, found: Recovered, emit: Emit) -> Turn:
        """The call that the model wrote in its free text, put into the frame."""
        decision = Evidence(pointer="", value=found.name, how="generated")
        await emit(ChoiceMade(decision=decision))
        session.count_reasoning(thought.num_tokens)
        context = continue_from(self.engine.tokenizer, thought.prompt_ids, thought.token_ids, found.content)
        place = self._place_of(decision, context, self.frame.separator if found.content else None)
        call = ToolCall(
            id=_new_id(),
            name=found.name,
            arguments=_object(dumps(found.arguments)),
            evidence=tuple(
                Evidence(pointer=pointer((name,)), value=value, how="generated")
                for name, value in found.arguments.items()
            ),
            decision=decision,
            usage=session.call_usage,
        )
        return self._called(found.content, [call], self._after(place, dumps(found.arguments)), thought.finish)

    def _called(self, content: str, calls: Sequence[ToolCall], end: Context, finish: FinishReason) -> Turn:
        return Turn(
            message=Message(role="assistant", content=content, calls=tuple(calls)),
            token_ids=end.ids + self.engine.tokenizer.encode(end.tail),
            finish=finish,
            decision=calls[0].decision,
        )

    def _after(self, place: Place, arguments: str) -> Context:
        """The context after a call with these arguments."""
        return advance(self.engine.tokenizer, place.json().with_text(arguments), self.frame.after_arguments)

    def _opened(self, context: Context, separator: str) -> Context:
        """The context where a tool's name begins."""
        return advance(self.engine.tokenizer, context, separator + self.frame.before_name)

    def _place_of(self, decision: Evidence, before: Context, separator: str | None) -> Place:
        """Where the arguments of the call that was decided on begin; without `separator` nothing is said before."""
        spoken = separator is not None
        return self.arguments(before, str(decision.value), spoken=spoken, separator=separator)

    def arguments(self, before: Context, name: str, *, spoken: bool = False, separator: str | None = None) -> Place:
        """The place where the arguments of a call to `name` begin.

        `separator` stands between the frame and what was said before it; by default what the frame has there.
        """
        seam = self.frame.separator if separator is None else separator

        def opened(context: Context, spoken: bool) -> Context:
            return self._opened(context, seam if spoken else "").with_text(name + self.frame.before_arguments)

        return Place(before=before, opened=opened, spoken=spoken)

    def _priors_at(self, place: Callable[[Context], Place], *identity: object) -> Priors:
        """Label priors measured at the same place after content-free messages."""
        places = [place(Context(ids=ids)) for ids in self._content_free_prompts]
        return Priors(self.priors, places, self.engine.info.digest, *identity)

    @cached_property
    def _content_free_prompts(self) -> list[tuple[int, ...]]:
        return [self.prompt([Message(role="user", content=text)]) for text in CONTENT_FREE]


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex[:12]}"


def _object(text: str) -> Mapping[str, JsonValue]:
    arguments = loads(text)
    assert isinstance(arguments, Mapping)  # a tool's schema is an object, and the arguments satisfy it
    return arguments
