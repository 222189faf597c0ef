"""One turn of an agent: free text, then call or answer, then which tool, then its arguments."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property

from agentform.calls.choose import Priors, Scoring, choose, require_confidence
from agentform.calls.fill import Draft, Filling, evidence_of
from agentform.calls.frame import Frame, ToolText, learn_frame
from agentform.calls.place import Place, after, at
from agentform.calls.prior import CONTENT_FREE, PriorStore
from agentform.calls.questions import Question
from agentform.calls.recovery import Recovered, recover
from agentform.calls.repair import fill_form, refusal
from agentform.calls.session import Session
from agentform.calls.thinking import Emit, Reasoning, Thought, think
from agentform.calls.transcript import Context, advance, continue_from, splice
from agentform.errors import Violation
from agentform.messages import (
    AnswerDelta,
    ChoiceMade,
    Evidence,
    Message,
    ToolCall,
    ToolResult,
)
from agentform.runtime.engine import Engine, FinishReason
from agentform.schema.form import pointer
from agentform.schema.json_text import dumps, loads
from agentform.schema.load import Target

__all__ = ["Aim", "Caller", "Turn"]

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
    filled: Draft | None = None
    """The form that was the answer, if the turn was to answer with one."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a turn may come to; by default the model calls any of the tools or answers in free text."""

    may_call: bool = True
    may_answer: bool = True
    """Without it the model calls a tool, whatever it says before."""
    tool: str | None = None
    """The only tool that may be called; the model is told of the others all the same."""
    form: Target | None = None
    """An answer is this form, filled, instead of free text."""
    stop: tuple[str, ...] = ()
    """Texts that end the turn where they occur in free text."""


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A call whose arguments are decided; `text` is their JSON."""

    name: str
    text: str
    evidence: tuple[Evidence, ...]
    decision: Evidence


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
        if not (aim.may_call and self._tools):
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
        return await self._call(session, messages, thought, decision)

    def _callable(self, aim: Aim) -> Mapping[str, Target]:
        return self.targets if aim.tool is None else {aim.tool: self.targets[aim.tool]}

    async def _next_step(self, session: Session, thought: Thought, aim: Aim) -> Evidence:
        """The decision whether to call and which tool; its value is `None` for an answer."""
        if thought.stopped:
            return Evidence(pointer="", value=None, how="fixed")
        names, answerable = list(self._callable(aim)), aim.may_answer and not thought.called
        if len(names) == 1 and not answerable:
            return Evidence(pointer="", value=names[0], how="fixed")
        question = self._step_question(names, answerable=answerable)
        priors = self._priors_at(lambda context: at(self._at_step(context, "")), "action")
        place = at(self._at_step(thought.context, thought.content))
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

    def _at_step(self, context: Context, content: str) -> Context:
        """The context where the next step is chosen."""
        if not self.frame.step_lead:
            return self._opened(context, bool(content))
        return context.with_text(("\n" if content else "") + self.frame.step_lead)

    async def _answer(
        self, session: Session, messages: Sequence[Message], spoken: _Spoken, aim: Aim, emit: Emit
    ) -> Turn:
        """The free text is the answer, continued where its limit cut it off; after a note it is generated anew."""
        if aim.form is not None:
            return await self._answer_with_form(session, messages, spoken, aim.form)
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
        self, session: Session, messages: Sequence[Message], spoken: _Spoken, form: Target
    ) -> Turn:
        """The form is filled after the free text, if there is any, which counts as reasoning."""
        thought = spoken.thought
        filling = Filling(
            target=form,
            place=at(Context(ids=spoken.prompt_ids)) if thought is None else after(thought.context, thought.content),
            priors=self._priors_at(at, "form"),
            scoring=self.scoring,
            retry=_FormRetry(self, messages).place,
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

    async def _call(
        self,
        session: Session,
        messages: Sequence[Message],
        thought: Thought,
        decision: Evidence,
    ) -> Turn:
        name = str(decision.value)
        target = self.targets[name]
        filling = Filling(
            target=target,
            place=self.arguments(thought.context, name, spoken=bool(thought.content)),
            closing=self.frame.after_arguments,
            priors=self._priors_at(lambda context: self.arguments(context, name), name),
            scoring=self.scoring,
            retry=_Retry(self, messages, thought.content, name).place,
        )
        draft = await fill_form(session, filling)
        evidence = evidence_of(target.form.root, draft)
        made = _Made(name=name, text=draft.written.text, evidence=evidence, decision=decision)
        return self._made_call(session, filling.place, made, thought.content, thought.finish)

    async def _recovered(self, session: Session, thought: Thought, found: Recovered, emit: Emit) -> Turn:
        """The call that the model wrote in its free text, put into the frame."""
        decision = Evidence(pointer="", value=found.name, how="generated")
        await emit(ChoiceMade(decision=decision))
        session.count_reasoning(thought.num_tokens)
        context = continue_from(self.engine.tokenizer, thought.prompt_ids, thought.token_ids, found.content)
        place = self.arguments(context, found.name, spoken=bool(found.content))
        evidence = tuple(
            Evidence(pointer=pointer((name,)), value=value, how="generated") for name, value in found.arguments.items()
        )
        made = _Made(name=found.name, text=dumps(found.arguments), evidence=evidence, decision=decision)
        return self._made_call(session, place, made, found.content, thought.finish)

    def _made_call(self, session: Session, place: Place, made: _Made, content: str, finish: FinishReason) -> Turn:
        arguments = loads(made.text)
        assert isinstance(arguments, Mapping)  # a tool's schema is an object, and the arguments satisfy it
        call = ToolCall(
            id=f"call_{uuid.uuid4().hex[:12]}",
            name=made.name,
            arguments=arguments,
            evidence=made.evidence,
            decision=made.decision,
            usage=session.turn_usage,
        )
        end = advance(self.engine.tokenizer, place.json().with_text(made.text), self.frame.after_arguments)
        ids = end.ids + self.engine.tokenizer.encode(end.tail)
        message = Message(role="assistant", content=content, calls=(call,))
        return Turn(message=message, token_ids=ids, finish=finish, decision=made.decision)

    def _opened(self, context: Context, spoken: bool) -> Context:
        """The context where a tool's name begins."""
        separator = self.frame.separator if spoken else ""
        return advance(self.engine.tokenizer, context, separator + self.frame.before_name)

    def arguments(self, before: Context, name: str, *, spoken: bool = False) -> Place:
        """The place where the arguments of a call to `name` begin."""

        def opened(context: Context, spoken: bool) -> Context:
            return self._opened(context, spoken).with_text(name + self.frame.before_arguments)

        return Place(before=before, opened=opened, spoken=spoken)

    def _priors_at(self, place: Callable[[Context], Place], *identity: object) -> Priors:
        """Label priors measured at the same place after content-free messages."""
        places = [place(Context(ids=ids)) for ids in self._content_free_prompts]
        return Priors(self.priors, places, self.engine.info.digest, *identity)

    @cached_property
    def _content_free_prompts(self) -> list[tuple[int, ...]]:
        return [self.prompt([Message(role="user", content=text)]) for text in CONTENT_FREE]

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

    async def place(self, arguments: str, violations: Sequence[Violation]) -> Place:
        value = loads(arguments)
        call = ToolCall(id="refused", name=self.name, arguments=value if isinstance(value, dict) else {})
        reasons = "; ".join(f"{v.pointer or 'arguments'}: {v.reason}" for v in violations)
        result = ToolResult(call_id=call.id, name=self.name, content=f"Invalid: {reasons}", is_error=True)
        refused = Message(role="assistant", content=self.content, calls=(call,))
        prompt = self.caller.retry_prompt(self.messages, refused, result)
        return self.caller.arguments(Context(ids=prompt), self.name)


@dataclass(frozen=True)
class _FormRetry:
    """Where a refused form is filled again: after a turn that shows it and says what was wrong."""

    caller: Caller
    messages: Sequence[Message]

    async def place(self, refused: str, violations: Sequence[Violation]) -> Place:
        shown = [Message(role="assistant", content=refused), Message(role="user", content=refusal(violations))]
        return at(Context(ids=self.caller.prompt([*self.messages, *shown])))
