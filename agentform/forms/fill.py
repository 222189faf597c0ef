"""`fill`: the last message of a conversation answered by a filled form instead of text."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from agentform._util.sync import run_blocking
from agentform.decoding.call_results import bound_results
from agentform.decoding.insertion_point import InsertionPoint, unframed
from agentform.decoding.limits import Limits
from agentform.decoding.prompt_work import check_fits, num_characters, prompt_work
from agentform.decoding.session import Session
from agentform.decoding.thinking import SettledPrompt, Thinking, settle, template_arguments, think_first
from agentform.decoding.token_context import TokenContext, advance
from agentform.decoding.tool_format import argument_lines, conversation, format_of
from agentform.errors import InvalidInput
from agentform.evidence_html import evidence_html, shown, text_html, usage_html
from agentform.forms.draft import Filling, fill_form
from agentform.forms.elsewhere import Elsewhere, state_of
from agentform.forms.label_prior import CONTENT_FREE, PriorStore, priors_of
from agentform.forms.langchain_decider import DeciderSource, decider_of
from agentform.forms.refusal import RefusalPrompt
from agentform.forms.scoring import Priors, Scoring
from agentform.messages import Evidence, Message, Usage
from agentform.runtime.engine import Engine, Sampling
from agentform.schema.target import Target, load

__all__ = ["Filled", "Filler", "Prompts", "as_messages", "fill", "fill_sync"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Filled(Generic[T]):
    """A filled form."""

    value: T
    """What the schema's own validator made of it: a model instance, or plain JSON for a raw schema."""
    json_text: str
    evidence: tuple[Evidence, ...]
    usage: Usage
    prompt_usage: Usage = field(default_factory=Usage)
    """Of the request that read the prompt first: how long it is, and how much of it was cached."""
    reasoning: str = ""
    """What the model thought first, where it was asked to."""

    def _repr_html_(self) -> str:
        """For notebooks: how each leaf got its value."""
        return shown(text_html(self.reasoning), evidence_html(self.evidence), usage_html(self.usage, self.prompt_usage))

    def __getitem__(self, pointer: str) -> Evidence:
        """The evidence for the leaf at a JSON Pointer; KeyError when there is none."""
        for item in self.evidence:
            if item.pointer == pointer:
                return item
        raise KeyError(pointer)


@overload
async def fill(
    engine: Engine,
    messages: str | Sequence[Message],
    form: type[T],
    *,
    instructions: str = ...,
    list_fields: bool | None = ...,
    limits: Limits | None = ...,
    sampling: Sampling | None = ...,
    scoring: Scoring | None = ...,
    priors: PriorStore | None = ...,
    think: bool | Thinking = ...,
    decider: DeciderSource | None = ...,
) -> Filled[T]: ...
@overload
async def fill(
    engine: Engine,
    messages: str | Sequence[Message],
    form: Any,
    *,
    instructions: str = ...,
    list_fields: bool | None = ...,
    limits: Limits | None = ...,
    sampling: Sampling | None = ...,
    scoring: Scoring | None = ...,
    priors: PriorStore | None = ...,
    think: bool | Thinking = ...,
    decider: DeciderSource | None = ...,
) -> Filled[Any]: ...
async def fill(
    engine: Engine,
    messages: str | Sequence[Message],
    form: Any,
    *,
    instructions: str = "",
    list_fields: bool | None = None,
    limits: Limits | None = None,
    sampling: Sampling | None = None,
    scoring: Scoring | None = None,
    priors: PriorStore | None = None,
    think: bool | Thinking = False,
    decider: DeciderSource | None = None,
) -> Filled[Any]:
    """Fill `form` (a pydantic model, another type, or a JSON Schema) from a conversation.

    `messages` is a text or messages that end with the user's. The system message holds `instructions` and the form's
    own description; with `list_fields` also every field with its description and options, as `Scoring.list_fields` has
    it where it is not given. `sampling` says how tokens of what is written are drawn. `priors` keeps label
    priors between calls. A form that is filled often may be loaded once, with `agentform.schema.target.load`, and its
    `Target` given here. With `think` a model that was trained
    to think does so first, between its own marks; without it such a model is told not to, where its template can.
    `decider` is a decision model that answers the closed questions, as `load_decider` or LangChain has them; the
    engine writes what is free, answers where the decider cannot, and decides again what the schema refused.

    Raises:
        UnsupportedSchema: the form cannot be compiled.
        CallError: no acceptable filling was found; CallRejected, ArgumentsTruncated, Abstained among them.
        EngineError: the engine cannot serve the request; DeadlineExceeded among them.
    """
    filler = Filler(
        engine,
        form,
        instructions=instructions,
        list_fields=list_fields,
        limits=limits,
        sampling=sampling,
        scoring=scoring,
        priors=priors,
        think=think,
        decider=decider,
    )
    return await filler.fill(messages)


class Filler:
    """`fill` for one form and many texts: what does not depend on the text is prepared once."""

    def __init__(
        self,
        engine: Engine,
        form: Any,
        *,
        instructions: str = "",
        list_fields: bool | None = None,
        limits: Limits | None = None,
        sampling: Sampling | None = None,
        scoring: Scoring | None = None,
        priors: PriorStore | None = None,
        think: bool | Thinking = False,
        decider: DeciderSource | None = None,
    ) -> None:
        """The arguments are those of `fill`.

        Raises:
            UnsupportedSchema: the form cannot be compiled.
            InvalidInput: `decider` is no decision model.
        """
        self.target = form if isinstance(form, Target) else load(form)
        self._engine = engine
        self._limits = limits or Limits()
        self._sampling = sampling
        self._scoring = scoring or Scoring.of(engine)
        listed = self._scoring.list_fields if list_fields is None else list_fields
        self._prompts = Prompts(engine, self.target, instructions, listed)
        self._priors = priors or priors_of(engine)
        self._thinking = think if isinstance(think, Thinking) else Thinking(effort="medium") if think else None
        self._decider = decider_of(decider)
        self._about = "\n".join(filter(None, (instructions, self.target.description)))

    async def fill(self, messages: str | Sequence[Message]) -> Filled[Any]:
        """The form, filled from a conversation.

        Raises:
            CallError, EngineError: as `fill` raises them.
        """
        session = Session(self._engine, limits=self._limits, sampling=self._sampling)
        conversation = as_messages(messages)
        point, label_priors = await self._prompts.prepared(conversation, self._priors)
        thought = ""
        if self._thinking is not None:
            point, thought = await self._prompts.thought(session, conversation, self._thinking)
        filling = Filling(
            target=self.target,
            point=point,
            priors=label_priors,
            scoring=self._scoring,
            refusal=RefusalPrompt(messages=conversation, point=self._prompts.point),
            elsewhere=self._elsewhere(conversation, thought),
        )
        state = await fill_form(session, filling)
        return Filled(
            value=self.target.validator.build(state.value),
            json_text=state.json_text,
            evidence=state.evidence(),
            usage=session.usage,
            prompt_usage=session.prompt_usage or Usage(),
            reasoning=thought,
        )

    def _elsewhere(self, messages: Sequence[Message], thought: str) -> Elsewhere | None:
        if self._decider is None:
            return None
        more = [f"assistant thinks: {thought}"] if thought else []
        return Elsewhere(decider=self._decider, state=state_of(messages, *more), about=self._about)


@overload
def fill_sync(
    engine: Engine,
    messages: str | Sequence[Message],
    form: type[T],
    *,
    instructions: str = ...,
    list_fields: bool | None = ...,
    limits: Limits | None = ...,
    sampling: Sampling | None = ...,
    scoring: Scoring | None = ...,
    priors: PriorStore | None = ...,
    think: bool | Thinking = ...,
    decider: DeciderSource | None = ...,
) -> Filled[T]: ...
@overload
def fill_sync(
    engine: Engine,
    messages: str | Sequence[Message],
    form: Any,
    *,
    instructions: str = ...,
    list_fields: bool | None = ...,
    limits: Limits | None = ...,
    sampling: Sampling | None = ...,
    scoring: Scoring | None = ...,
    priors: PriorStore | None = ...,
    think: bool | Thinking = ...,
    decider: DeciderSource | None = ...,
) -> Filled[Any]: ...
def fill_sync(engine: Engine, messages: str | Sequence[Message], form: Any, **options: Any) -> Filled[Any]:
    """`fill` for code without an event loop, and for notebooks whose loop is already running."""
    return run_blocking(functools.partial(fill, engine, messages, form, **options))


def as_messages(messages: str | Sequence[Message]) -> list[Message]:
    """A text as one message of the user's, messages with each result after its call.

    Raises:
        InvalidInput: there is no message, or one holds text that is no Unicode.
    """
    listed = [Message(role="user", content=messages)] if isinstance(messages, str) else list(messages)
    if not listed:
        raise InvalidInput("at least one message is needed; got none")
    return bound_results(listed)


class Prompts:
    """Prompts that end where the form's JSON begins."""

    def __init__(self, engine: Engine, target: Target, instructions: str, list_fields: bool = False) -> None:
        self._engine = engine
        self._points: list[InsertionPoint] | None = None
        listing = argument_lines(target.form) if list_fields else ""
        self._system = "\n".join(part for part in (instructions, target.description, listing) if part)

    def point(self, messages: Sequence[Message]) -> InsertionPoint:
        """Where the JSON begins after these messages."""
        tokenizer = self._engine.tokenizer
        settled = settle(tokenizer, format_of(tokenizer), self._ids(messages, Thinking(effort="none")))
        return self._point(settled)

    async def thought(
        self, session: Session, messages: Sequence[Message], thinking: Thinking
    ) -> tuple[InsertionPoint, str]:
        """Where the JSON begins after a thought of the model's, and the thought.

        Raises:
            EngineError: the engine cannot serve the request.
        """
        format = format_of(self._engine.tokenizer)
        settled = await think_first(session, format, self._ids(messages, thinking), thinking, emit=_untold)
        return self._point(settled), settled.thought

    def _ids(self, messages: Sequence[Message], thinking: Thinking) -> tuple[int, ...]:
        tokenizer = self._engine.tokenizer
        format = format_of(tokenizer)
        arguments = template_arguments(format, thinking)
        return conversation(format, messages, instructions=self._system, arguments=arguments).ids(tokenizer)

    def _point(self, settled: SettledPrompt) -> InsertionPoint:
        tokenizer = self._engine.tokenizer
        opening = settled.before_text(format_of(tokenizer))
        return unframed(advance(tokenizer, TokenContext(ids=settled.ids), opening))

    async def prepared(self, messages: Sequence[Message], store: PriorStore) -> tuple[InsertionPoint, Priors]:
        """The insertion point after these messages and the label priors there.

        Raises:
            ContextOverflow: the messages alone do not fit.
        """

        def prepare() -> tuple[InsertionPoint, Priors]:
            check_fits(self._engine, messages, self._system)
            return self.point(messages), self.priors(store)

        return await prompt_work(num_characters(messages, self._system), prepare)

    def priors(self, store: PriorStore) -> Priors:
        """The label priors of the form's questions."""
        if self._points is None:
            self._points = [self.point([Message(role="user", content=text)]) for text in CONTENT_FREE]
        return Priors(store, self._engine, self._points)


async def _untold(event: object) -> None:
    """Nobody listens to a form's thought."""
    del event
