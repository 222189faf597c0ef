"""Free arguments in styles that write them as they are: they end where their closing mark stands.

A string between ``<parameter=city>`` and ``</parameter>`` is generated up to the closing mark, which therefore is never
a part of it, and is JSON text from there on. Its pattern, lengths and options are a grammar (`raw_grammar`); what its
schema asks beyond that is checked when the form is whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from agentform.decoding.formats.elements import unwrapped
from agentform.decoding.formats.probe import common_prefix
from agentform.decoding.formats.reading import Unreadable
from agentform.decoding.formats.types import Elements
from agentform.decoding.formats.values import JsonValues, read_any
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext, advance
from agentform.errors import ArgumentMalformed, ArgumentsTruncated, GrammarError
from agentform.forms.progress import Watch
from agentform.forms.raw_grammar import raw_grammar
from agentform.forms.word_ends import ended_at_word, may_end_in_word
from agentform.grammar.spec import GrammarSpec
from agentform.schema.form import Free, pointer
from agentform.schema.json_text import dumps

__all__ = ["RawValue", "raw_value", "write_raw"]

_SCALARS = frozenset({"integer", "number", "boolean", "null"})
_QUOTES = ("'", '"')
_AFTER_QUOTE = (",", ")", "]", "}")


@dataclass(frozen=True, kw_only=True)
class RawValue:
    """A value that begins after `middle` and ends at one of `stops`."""

    style: Elements
    is_string: bool
    middle: str
    stops: tuple[str, ...]


def raw_value(context: TokenContext, leaf: Free) -> RawValue | None:
    """How the leaf is written if it is an argument of its own in such a style; `None` where it is JSON."""
    style = context.style
    if not isinstance(style, Elements) or len(leaf.path) != 1:
        return None
    types = _types(leaf)
    if types == {"string"} and style.string_values is None:
        return RawValue(style=style, is_string=True, middle=style.string_middle, stops=_stops(style, leaf))
    if types and types <= _SCALARS and len({style.middle_of(kind) for kind in types}) == 1:
        middle = style.middle_of(min(types))
        return RawValue(style=style, is_string=False, middle=middle, stops=_stops(style, leaf, is_string=False))
    return None


def _types(leaf: Free) -> set[str]:
    declared = leaf.schema.get("type") if isinstance(leaf.schema, Mapping) else None
    if isinstance(declared, str):
        return {declared}
    return set(map(str, declared)) if isinstance(declared, list | tuple) else set()


def _stops(style: Elements, leaf: Free, *, is_string: bool = True) -> tuple[str, ...]:
    core = style.close_of(str(leaf.path[0]), is_string=is_string).rstrip()
    if core in _QUOTES:
        return tuple(core + after for after in _AFTER_QUOTE)
    return (core,) if core.strip() else _AFTER_QUOTE


async def write_raw(
    session: Session, context: TokenContext, leaf: Free, raw: RawValue, *, watch: Watch | None
) -> tuple[str, bool]:
    """The leaf's JSON text, and whether it was cut where its last word began.

    Raises:
        ArgumentsTruncated: the value had no end within `Limits.argument_tokens`.
        ArgumentMalformed: what was written is no value of the leaf's type.
        EngineError: the engine cannot serve the request.
    """
    grammar = raw_grammar(session.tokenizer, leaf, raw.stops) if raw.is_string else None
    if grammar is not None:
        with suppress(GrammarError):  # the engine cannot follow it; validation can
            return await _written(session, context, leaf, raw, watch=watch, grammar=grammar)
    return await _written(session, context, leaf, raw, watch=watch)


async def _written(
    session: Session,
    context: TokenContext,
    leaf: Free,
    raw: RawValue,
    *,
    watch: Watch | None,
    grammar: GrammarSpec | None = None,
) -> tuple[str, bool]:
    """The value's JSON text, generated under the grammar, or up to what stops it, and whether it was cut."""
    prompt_ids = _opened(session, context, raw).token_ids(session.tokenizer)
    max_tokens, stop = session.limits.argument_tokens, () if grammar else raw.stops
    told = watch.leaf(pointer(leaf.path), lead="", follow="", words=may_end_in_word(leaf)) if watch else None
    text, finish = "", None
    async with aclosing(session.generate(prompt_ids, max_tokens=max_tokens, stop=stop, grammar=grammar)) as chunks:
        async for chunk in chunks:
            text, finish = _before(text + chunk.text, raw.stops), chunk.finish or finish
            if told and raw.is_string:
                said = _certain(text, raw.stops)
                await told.wrote(dumps(unwrapped(said) if raw.style.cdata else said)[:-1])
    if finish == "length":
        written = dumps(text)[:-1] if raw.is_string else text
        raise ArgumentsTruncated(pointer=pointer(leaf.path), written=written, max_tokens=max_tokens)
    json_text = _read(leaf, raw, text)
    cut = await ended_at_word(session, context, leaf, json_text)
    if told:
        await told.ended(cut or json_text)
    return cut or json_text, cut is not None


def _before(text: str, stops: Sequence[str]) -> str:
    """The text up to the mark that closes it: a grammar writes the mark too."""
    return text[: min((at for at in map(text.find, stops) if at >= 0), default=len(text))]


def _certain(text: str, stops: Sequence[str]) -> str:
    """The text without an end with which a mark may begin."""
    begun = (at for at in range(len(text)) if any(stop.startswith(text[at:]) for stop in stops))
    return text[: next(begun, len(text))]


def _opened(session: Session, context: TokenContext, raw: RawValue) -> TokenContext:
    """Where the value's own text begins."""
    if raw.is_string:
        return context.with_text(' "')
    spelt = context.spelt(session.tokenizer)
    written = common_prefix(*raw.style.all_middles)
    return advance(session.tokenizer, spelt, raw.middle[len(written) :])


def _read(leaf: Free, raw: RawValue, text: str) -> str:
    if raw.is_string:
        return dumps(unwrapped(text) if raw.style.cdata else text)
    reasons: Sequence[str] = ()
    for spelling in (raw.style.scalars, JsonValues()):
        try:
            return dumps(read_any(spelling, text))
        except Unreadable as error:
            reasons = [*reasons, str(error)]
    raise ArgumentMalformed(pointer=pointer(leaf.path), written=text, reason="; ".join(reasons))
