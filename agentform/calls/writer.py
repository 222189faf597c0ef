"""Writes a form's JSON in declared order: decided values are forced, only free leaves are generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentform.calls.questions import Decisions
from agentform.calls.session import Session
from agentform.calls.transcript import Context
from agentform.errors import ArgumentsTruncated, InvalidInput
from agentform.grammar.spec import GrammarSpec
from agentform.messages import JsonValue
from agentform.runtime.engine import Tokenizer
from agentform.schema.form import Choice, Fixed, Free, Node, Path, Record, Union, pointer
from agentform.schema.json_text import dumps, loads

__all__ = ["Piece", "Written", "pieces", "write"]

Piece: TypeAlias = str | Free

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


def pieces(root: Node, decisions: Decisions) -> list[Piece]:
    """The form as literal text and free leaves in written order; literals are never adjacent."""
    merged: list[Piece] = []
    for piece in _pieces(root, decisions):
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def _pieces(node: Node, decisions: Decisions) -> list[Piece]:
    match node:
        case Free():
            return [node]
        case Fixed():
            return [dumps(node.value)]
        case Choice():
            return [dumps(node.options[decisions[node.path, "value"]])]
        case Union():
            return _pieces(node.arms[decisions[node.path, "arm"]], decisions)
        case Record():
            return _record_pieces(node, decisions)


def _record_pieces(node: Record, decisions: Decisions) -> list[Piece]:
    written: list[Piece] = []
    for field in node.fields:
        if field.required or decisions[(*node.path, field.name), "presence"]:
            written += [", " if written else "", f"{dumps(field.name)}: ", *_pieces(field.node, decisions)]
    return ["{", *written, "}"]


async def write(
    session: Session,
    context: Context,
    parts: Sequence[Piece],
    *,
    closing: str = "",
    known: Mapping[Path, str] | None = None,
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
            value = await _generate(session, context.with_text(text), piece, follow[:_FOLLOW_CHARACTERS])
        free[piece.path] = value
        text += value
    return Written(text=text, free=free)


async def _generate(session: Session, context: Context, leaf: Free, follow: str) -> str:
    prompt, lead = _heal(session.tokenizer, context)
    grammar = GrammarSpec(kind="json_schema", text=_schema_text(leaf), lead=lead, follow=follow)
    max_tokens = session.limits.argument_tokens
    text, finish = "", None
    async for chunk in session.generate(prompt, max_tokens=max_tokens, grammar=grammar):
        text += chunk.text
        finish = chunk.finish or finish
    if finish not in ("grammar", "eos"):
        raise ArgumentsTruncated(pointer=pointer(leaf.path), written=text, max_tokens=max_tokens)
    return _value_text(leaf, text.removeprefix(lead).removesuffix(follow))


def _schema_text(leaf: Free) -> str:
    schema: JsonValue = leaf.schema if isinstance(leaf.schema, bool) else dict(leaf.schema)
    return dumps(schema)


def _value_text(leaf: Free, text: str) -> str:
    try:
        return dumps(loads(text))
    except InvalidInput as error:
        raise ArgumentsTruncated(pointer=pointer(leaf.path), written=text, max_tokens=0) from error


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
