"""Token ids of what was said, kept as they were: joining and re-rendering text changes tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentform._util.prefixes import common_prefix
from agentform.decoding.formats.spelling import spell
from agentform.decoding.formats.types import ArgumentStyle
from agentform.runtime.engine import Tokenizer

__all__ = ["TokenContext", "advance", "continue_from", "splice"]

_MAX_CHARACTER_BYTES = 4
_MEETING_TOKENS = 64
"""Two ways to cut the same text into tokens meet again within so many, or are not followed further."""


@dataclass(frozen=True, kw_only=True)
class TokenContext:
    """A place to continue from: ids that stay as they are, then text whose tokens may still merge onwards."""

    ids: tuple[int, ...]
    tail: str = ""
    style: ArgumentStyle | None = None
    """How a model spells arguments that begin here; `None` where JSON text stands as it is."""
    written: str = ""
    """The JSON text of arguments in that style, up to this place."""

    def line(self, text: str) -> str:
        """The text to tokenise when `text` comes next; for contexts without a style."""
        return self.tail + text

    def with_text(self, text: str) -> TokenContext:
        """The place that is `text` further on."""
        if self.style is not None:
            return replace(self, written=self.written + text)
        return TokenContext(ids=self.ids, tail=self.tail + text)

    def spelt(self, tokenizer: Tokenizer) -> TokenContext:
        """The same place, arguments in the model's style; its marks may be control tokens, its values never are."""
        context = TokenContext(ids=self.ids, tail=self.tail)
        for text, is_frame in spell(self.style, self.written) if self.style is not None else ():
            context = advance(tokenizer, context, text) if is_frame else context.with_text(text)
        return context

    def token_ids(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Everything up to here as tokens."""
        spelt = self.spelt(tokenizer)
        return spelt.ids + tokenizer.encode(spelt.tail)


def advance(tokenizer: Tokenizer, context: TokenContext, frame_text: str) -> TokenContext:
    """The context after `frame_text`, in which spelt special tokens are control tokens.

    Only for text that comes from a chat template; text of users and models goes through `TokenContext.with_text`.
    """
    ids = tokenizer.encode(frame_text, control=True)
    control = [i for i, token in enumerate(ids) if token in tokenizer.control_ids]
    if not control:
        return context.with_text(frame_text)
    first, last = control[0], control[-1]
    before = tokenizer.encode(context.line(tokenizer.decode(ids[:first])))
    return TokenContext(
        ids=context.ids + before + ids[first : last + 1],
        tail=tokenizer.decode(ids[last + 1 :]),
    )


def continue_from(
    tokenizer: Tokenizer, prompt_ids: Sequence[int], generated_ids: Sequence[int], text: str
) -> TokenContext:
    """The context after `text`, which is the completion `generated_ids` of `prompt_ids` or a prefix of it.

    Keeps as many generated ids as end before a word boundary inside `text`; the rest of `text` becomes the tail,
    so that its last word can merge with whatever is appended.
    """
    for kept in range(len(generated_ids), 0, -1):
        done = tokenizer.decode(generated_ids[:kept])
        if text.startswith(done) and text[len(done) : len(done) + 1].isspace():
            return TokenContext(ids=(*prompt_ids, *generated_ids[:kept]), tail=text[len(done) :])
    return TokenContext(ids=tuple(prompt_ids), tail=text)


def splice(tokenizer: Tokenizer, past: Sequence[int], rendered: Sequence[int]) -> tuple[int, ...]:
    """`rendered` with its beginning replaced by `past`, where both spell the same text with the same control tokens.

    Where the text of `past` is not a prefix of the rendered text (a template that rewrites history) or no token of
    `rendered` ends there, `rendered` is returned as it is; and so where one spells as data what is a control token of
    the other: a user may have typed what looks like the marks of an earlier conversation.
    """
    past, rendered = tuple(past), tuple(rendered)
    if not past or rendered[: len(past)] == past:
        return rendered
    text = tokenizer.decode(past)
    cut = _walked_cut(tokenizer, past, rendered)
    if cut is None or tokenizer.decode(rendered[:cut]) != text:
        cut = _cut_at(tokenizer, rendered, text)
    if cut is None or not _same_marks(tokenizer, past, rendered[:cut]):
        return rendered
    return past + rendered[cut:]


def _same_marks(tokenizer: Tokenizer, ours: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    """Whether control tokens stand at the same places of a text that both spell.

    Of theirs it may be text of ours: a mark within the model's own words, such as `</think>`, but no end of a turn.
    """
    same = common_prefix(ours, theirs)
    kept, rendered = _marks(tokenizer, ours[same:]), _marks(tokenizer, theirs[same:])
    return kept <= rendered and not any(token in tokenizer.eos_ids for _, token in rendered - kept)


def _marks(tokenizer: Tokenizer, ids: tuple[int, ...]) -> set[tuple[int, int]]:
    """The control tokens among `ids`, each with the number of characters before it."""
    found: set[tuple[int, int]] = set()
    start = num_before = 0
    for at, token in enumerate(ids):
        if token in tokenizer.control_ids:
            num_before += len(tokenizer.decode(ids[start:at]))
            found.add((num_before, token))
            num_before += len(tokenizer.decode((token,)))
            start = at + 1
    return found


def _walked_cut(tokenizer: Tokenizer, past: tuple[int, ...], rendered: tuple[int, ...]) -> int | None:
    """Where `past` should end in `rendered`, following both from place to place where their tokens end together.

    Only a guess: the text of some tokens alone may be another than in their sequence.
    """
    at = cut = 0
    while at < len(past):
        if cut == len(rendered):
            return None
        if past[at] == rendered[cut]:
            at, cut = at + 1, cut + 1
            continue
        met = _meeting(tokenizer, past[at : at + _MEETING_TOKENS], rendered[cut : cut + _MEETING_TOKENS])
        if met is None:
            return None
        at, cut = at + met[0], cut + met[1]
    return cut


def _meeting(tokenizer: Tokenizer, ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, int] | None:
    """The fewest tokens of both, at least one each, that spell the same."""
    num_ours = num_theirs = 1
    while num_ours <= len(ours) and num_theirs <= len(theirs):
        text, other = tokenizer.decode(ours[:num_ours]), tokenizer.decode(theirs[:num_theirs])
        if text == other:
            return num_ours, num_theirs
        if len(text) <= len(other):
            num_ours += 1
        else:
            num_theirs += 1
    return None


def _cut_at(tokenizer: Tokenizer, ids: tuple[int, ...], text: str) -> int | None:
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if len(tokenizer.decode(ids[:middle])) < len(text):
            low = middle + 1
        else:
            high = middle
    # The last character may be spread over several tokens; incomplete, it has the length of a whole one.
    ends = range(low, min(low + _MAX_CHARACTER_BYTES, len(ids) + 1))
    return next((end for end in ends if tokenizer.decode(ids[:end]) == text), None)
