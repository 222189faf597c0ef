"""Writes a form's JSON in declared order: decided values are forced, only free leaves are generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from agentform.calls.session import Session
from agentform.calls.text import Piece
from agentform.calls.transcript import Context
from agentform.calls.watch import Watch
from agentform.errors import ArgumentMalformed, ArgumentsTruncated, InvalidInput
from agentform.grammar.spec import GrammarSpec
from agentform.messages import JsonValue
from agentform.runtime.engine import Tokenizer
from agentform.schema.form import Free, Path, pointer
from agentform.schema.json_text import dumps, loads

__all__ = ["Written", "generate_leaf", "write"]

# What a value may begin with: the prompt ends where all of these still leave the same tokens behind.
_PROBES = (
    '"a',
    '"Z',
    '" ',
    '"\\',
    '""',
    '"1',
    "1",
    "-1",
    "0.",
    "{",
    '{"',
    "{}",
    "[",
    '["',
    "[]",
    "[1",
    "true",
    "null",
)
_FOLLOW_CHARACTERS = 3


@dataclass(frozen=True, kw_only=True)
class Written:
    """A form's JSON text and the text of each free leaf in it."""

    text: str
    free: Mapping[Path, str]


async def write(
    session: Session,
    context: Context,
    parts: Sequence[Piece],
    *,
    closing: str = "",
    known: Mapping[Path, str] | None = None,
    watch: Watch | None = None,
) -> Written:
    """Write the pieces after `context`; free leaves in `known` take that JSON text, the others are generated.

    `closing` is the text that follows the form.

    Raises:
        ArgumentsTruncated: a free leaf was not complete within `Limits.argument_tokens`.
    """
    text = ""
    free: dict[Path, str] = {}
    for index, piece in enumerate(parts):
        if isinstance(piece, str):
            text += piece
            continue
        following = parts[index + 1] if index + 1 < len(parts) else ""
        follow = (following if isinstance(following, str) else "") or closing
        value = (known or {}).get(piece.path)
        if value is None:
            value = await generate_leaf(session, context.with_text(text), piece, follow=follow, watch=watch)
        free[piece.path] = value
        text += value
    return Written(text=text, free=free)


async def generate_leaf(
    session: Session, context: Context, leaf: Free, *, follow: str, watch: Watch | None = None
) -> str:
    """The JSON text of a free leaf, generated at `context` under the leaf's own grammar; `follow` comes after it.

    Raises:
        ArgumentsTruncated: the leaf was not complete within `Limits.argument_tokens`.
        ArgumentMalformed: what was written is no strict JSON, though the grammar let it pass.
    """
    follow = follow[:_FOLLOW_CHARACTERS]
    prompt, lead = _heal(session.tokenizer, context)
    grammar = GrammarSpec(kind="json_schema", text=_schema_text(leaf), lead=lead, follow=follow)
    max_tokens = session.limits.argument_tokens
    told = watch.leaf(pointer(leaf.path), lead=lead, follow=follow) if watch else None
    text, finish = "", None
    async with aclosing(session.generate(prompt, max_tokens=max_tokens, grammar=grammar)) as chunks:
        async for chunk in chunks:
            text += chunk.text
            finish = chunk.finish or finish
            if told:
                await told.wrote(text)
    if finish not in ("grammar", "eos"):
        raise ArgumentsTruncated(pointer=pointer(leaf.path), written=text, max_tokens=max_tokens)
    if told:
        await told.ended(text.removesuffix(follow))
    return _value_text(leaf, text.removeprefix(lead).removesuffix(follow))


def _schema_text(leaf: Free) -> str:
    schema: JsonValue = leaf.schema if isinstance(leaf.schema, bool) else dict(leaf.schema)
    return dumps(schema)


def _value_text(leaf: Free, text: str) -> str:
    try:
        return dumps(loads(text))
    except InvalidInput as error:
        raise ArgumentMalformed(pointer=pointer(leaf.path), written=text, reason=str(error)) from error


def _heal(tokenizer: Tokenizer, context: Context) -> tuple[tuple[int, ...], str]:
    """Prompt ids that end on a token boundary whatever comes next, and the text between there and the end."""
    lines = [tokenizer.encode(context.line(probe)) for probe in _PROBES]
    shared = _shared_prefix(lines)
    while shared and not context.tail.startswith(tokenizer.decode(shared)):
        shared = shared[:-1]
    return context.ids + shared, context.tail[len(tokenizer.decode(shared)) :]


def _shared_prefix(lines: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    low, high = min(lines), max(lines)
    for index, token in enumerate(low):
        if index >= len(high) or high[index] != token:
            return low[:index]
    return low
