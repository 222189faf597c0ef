"""Writes a form's JSON in declared order: decided values are forced, only free leaves are generated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from agentform._util.prefixes import shared_prefix
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext
from agentform.errors import ArgumentMalformed, ArgumentsTruncated, GrammarError, InvalidInput
from agentform.forms.progress import Watch
from agentform.forms.raw_values import raw_value, write_raw
from agentform.forms.repetition import find_loop, find_overflow, find_repeated_key
from agentform.forms.state import FormPiece, FormState
from agentform.forms.word_ends import ended_at_word, may_end_in_word
from agentform.grammar.spec import GrammarSpec
from agentform.messages import JsonValue
from agentform.runtime.engine import Tokenizer
from agentform.schema.form import Free, Path, pointer
from agentform.schema.json_text import dumps, loads
from agentform.schema.tighten import narrowed, with_keys, without_text_rules

__all__ = ["write_leaf", "write_leaves"]

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


async def write_leaves(
    session: Session, context: TokenContext, state: FormState, *, closing: str = "", watch: Watch | None = None
) -> FormState:
    """Write the form after `context`: the free leaves that have no text yet are generated, each in its place.

    `closing` is the text that follows the form. The state that comes back holds the texts of the leaves that the form
    has by its answers, and no others.

    Raises:
        ArgumentsTruncated: a free leaf was not complete within `Limits.argument_tokens`.
        ArgumentMalformed: what was written is no strict JSON.
    """
    pieces, text = state.pieces(), ""
    texts: dict[Path, str] = {}
    for at, piece in enumerate(pieces):
        if isinstance(piece, str):
            text += piece
            continue
        if piece.path not in state.texts:
            follow = _literal_after(pieces, at) or closing
            state = await write_leaf(session, context.with_text(text), state, piece, follow=follow, watch=watch)
        texts[piece.path] = state.texts[piece.path]
        text += texts[piece.path]
    return replace(state, texts=texts)


def _literal_after(pieces: Sequence[FormPiece], at: int) -> str:
    following = pieces[at + 1] if at + 1 < len(pieces) else ""
    return following if isinstance(following, str) else ""


async def write_leaf(
    session: Session,
    context: TokenContext,
    state: FormState,
    leaf: Free,
    *,
    follow: str,
    watch: Watch | None = None,
    max_tokens: int | None = None,
) -> FormState:
    """Generate a free leaf at `context` under the leaf's own grammar; `follow` comes after it.

    It may take `max_tokens`, by default `Limits.argument_tokens`.

    Where it ran into its token limit because a list, string or number in it repeated itself, or names a key twice or
    a number that no float holds, it is generated again without room for that, at most `Limits.repairs` times.

    Raises:
        ArgumentsTruncated: the leaf was not complete within its tokens, and no bound ended it.
        ArgumentMalformed: what was written is no strict JSON, though the grammar let it pass.
    """
    fault: ArgumentsTruncated | ArgumentMalformed | None = None
    room = session.limits.argument_tokens if max_tokens is None else max_tokens
    for attempt in range(session.limits.repairs + 1):
        try:
            text, cut = await _generate(
                session, context, leaf, follow=follow[:_FOLLOW_CHARACTERS], watch=watch, room=room
            )
        except (ArgumentsTruncated, ArgumentMalformed) as error:
            fault, narrower = error, _narrower(leaf, error, last=attempt + 1 == session.limits.repairs)
            if narrower is None:
                raise
            leaf = narrower
        except GrammarError as error:
            if fault is not None:
                raise fault from error  # the bound left nothing to write
            looser = without_text_rules(leaf.schema)
            if looser == leaf.schema:
                raise
            leaf = replace(leaf, schema=looser)  # the engine could not follow it to the end; validation can
        else:
            return state.with_text(leaf.path, text, again=fault is not None, cut=cut)
    raise fault or GrammarError(f"no grammar for '{pointer(leaf.path)}' could be followed to its end")


def _narrower(leaf: Free, fault: ArgumentsTruncated | ArgumentMalformed, *, last: bool) -> Free | None:
    """The leaf without room for what went wrong, if the schema leaves room for the rest.

    A loop gets a bound, keys that came twice get names, and the object no others where that is the last attempt.
    """
    repeated = find_repeated_key(fault.written)
    if isinstance(fault, ArgumentMalformed):
        loop, closed = None if repeated else find_overflow(fault.written), last
    else:
        loop, closed = find_loop(fault.written), True
    schema = None if loop is None else narrowed(leaf.schema, loop.steps, loop.kind, loop.bound)
    if schema is None and repeated is not None:
        schema = with_keys(leaf.schema, repeated.steps, repeated.keys, closed=closed)
    return None if schema is None else replace(leaf, schema=schema)


async def _generate(
    session: Session, context: TokenContext, leaf: Free, *, follow: str, watch: Watch | None, room: int
) -> tuple[str, bool]:
    """The leaf's JSON text, and whether it was cut where its last word began."""
    if (raw := raw_value(context, leaf)) is not None:
        with suppress(ArgumentMalformed):  # a number that is none: it is written again under the leaf's grammar
            return await write_raw(session, context, leaf, raw, watch=watch)
    prompt, lead = _heal(session.tokenizer, context.spelt(session.tokenizer))
    grammar = GrammarSpec(kind="json_schema", text=_schema_text(leaf), lead=lead, follow=follow)
    told = watch.leaf(pointer(leaf.path), lead=lead, follow=follow, words=may_end_in_word(leaf)) if watch else None
    text, finish = "", None
    async with aclosing(session.generate(prompt, max_tokens=room, grammar=grammar)) as chunks:
        async for chunk in chunks:
            text += chunk.text
            finish = chunk.finish or finish
            if told:
                await told.wrote(text)
    if finish not in ("grammar", "eos"):
        raise ArgumentsTruncated(pointer=pointer(leaf.path), written=text.removeprefix(lead), max_tokens=room)
    written = text.removeprefix(lead).removesuffix(follow)
    value_text = _value_text(leaf, written)
    cut = await ended_at_word(session, context, leaf, written)
    if told:
        await told.ended(lead + (cut or written))
    return (value_text, False) if cut is None else (_value_text(leaf, cut), True)


def _schema_text(leaf: Free) -> str:
    schema: JsonValue = leaf.schema if isinstance(leaf.schema, bool) else dict(leaf.schema)
    return dumps(schema)


def _value_text(leaf: Free, text: str) -> str:
    try:
        return dumps(loads(text))
    except InvalidInput as error:
        raise ArgumentMalformed(pointer=pointer(leaf.path), written=text, reason=str(error)) from error


def _heal(tokenizer: Tokenizer, context: TokenContext) -> tuple[tuple[int, ...], str]:
    """Prompt ids that end on a token boundary whatever comes next, and the text between there and the end."""
    lines = [tokenizer.encode(context.line(probe)) for probe in _PROBES]
    shared = shared_prefix(lines)
    while shared and not context.tail.startswith(tokenizer.decode(shared)):
        shared = shared[:-1]
    return context.ids + shared, context.tail[len(tokenizer.decode(shared)) :]
