"""Keeps text that spells a control token apart from control tokens.

A chat template joins what it writes itself with what users and tools wrote. To tell the two apart afterwards,
every spelling of a control token in the inputs is broken up by a sentinel character before rendering: what
still spells a control token in the rendered text was written by the template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentform.errors import InvalidRequest

__all__ = ["ControlText", "Marked", "plain"]

_MODEL_WRITTEN = frozenset({"content", "reasoning_content", "reasoning", "thinking"})
"""Keys of an assistant message that hold the model's own words."""
_PRIVATE_USE = range(0xE000, 0xF900)


@dataclass(frozen=True, kw_only=True)
class Marked:
    """Messages and tools in which no string spells a control token, and the sentinel that was put in."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    sentinel: str

    def restore(self, text: str) -> str:
        """`text` without the sentinel, also where a template has written it as a JSON escape."""
        return text.replace(self.sentinel, "").replace(_escaped(self.sentinel), "")


class ControlText:
    """Finds spellings of control tokens.

    `special` tokens are never data. `structural` ones are words of the vocabulary that the template uses as
    marks, such as `<think>`: they keep their meaning in the model's own words and lose it everywhere else.
    """

    def __init__(self, *, special: Collection[str], structural: Collection[str]) -> None:
        self._anywhere = _Spellings({*special, *structural})
        self._own_words = _Spellings(special)

    def split(self, text: str) -> Iterator[str]:
        """The pieces of `text`: runs (perhaps empty) and, between them, spelt control tokens."""
        return self._anywhere.split(text)

    def tokens_in(self, text: str) -> list[str]:
        """The control tokens that `text` spells, in order."""
        return list(self.split(text))[1::2]

    def mark(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        pieces: frozenset[str] = frozenset(),
    ) -> Marked | None:
        """Break up every spelling, and keep `pieces` apart from what a template writes around them.

        `None` where there is nothing to break up.
        """
        seen: list[str] = []
        found: list[bool] = []

        def look(text: str, spellings: _Spellings) -> str:
            seen.append(text)
            found.append(text in pieces or spellings.occur_in(text))
            return text

        self._map(messages, tools, look)
        if not any(found):
            return None
        sentinel = _unused("\n".join(seen))

        def apart(text: str, spellings: _Spellings) -> str:
            broken = spellings.break_up(text, sentinel)
            start = len(broken) - len(broken.lstrip())  # templates trim what they are given
            return broken[:start] + sentinel + broken[start:] if text in pieces else broken

        marked = self._map(messages, tools, apart)
        return Marked(messages=marked[0], tools=marked[1], sentinel=sentinel)

    def _map(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        change: Callable[[str, _Spellings], str],
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
        def data(text: str) -> str:
            return change(text, self._anywhere)

        def own_words(text: str) -> str:
            return change(text, self._own_words)

        def message(source: Mapping[str, Any]) -> dict[str, Any]:
            own = _MODEL_WRITTEN if source.get("role") == "assistant" else frozenset[str]()
            return {data(key): plain(value, own_words if key in own else data) for key, value in source.items()}

        return [message(m) for m in messages], None if tools is None else plain(tools, data)


class _Spellings:
    """A set of texts, searched for at every position, and their beginnings at the end of a string."""

    def __init__(self, texts: Collection[str]) -> None:
        longest_first = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
        alternatives = "|".join(map(re.escape, longest_first)) or r"(?!)"
        # Templates may change the case of what they are given.
        self._start = re.compile(f"(?=(?:{alternatives}))(.)", re.DOTALL | re.IGNORECASE)
        self._whole = re.compile(f"({alternatives})")
        # A string that ends with the beginning of a token could be completed by the text after it. Tokens
        # that begin with a letter are left out, lest "tool" be marked and no longer be the role it was.
        marks = [text for text in longest_first if not text[0].isalnum()]
        self._beginnings = frozenset(text[:size].lower() for text in marks for size in range(1, len(text)))
        self._longest = max(map(len, marks), default=0)

    def occur_in(self, text: str) -> bool:
        return self._start.search(text) is not None or self._ends_open(text)

    def break_up(self, text: str, sentinel: str) -> str:
        broken = self._start.sub(lambda match: match[1] + sentinel, text)
        return broken + sentinel if self._ends_open(text) else broken

    def split(self, text: str) -> Iterator[str]:
        yield from self._whole.split(text)

    def _ends_open(self, text: str) -> bool:
        return any(text[-size:].lower() in self._beginnings for size in range(1, min(self._longest, len(text) + 1)))


def plain(value: Any, change: Callable[[str], str] = lambda text: text) -> Any:
    """`value` with mappings as dicts, sequences as lists and strings, keys included, put through `change`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {plain(key, change): plain(item, change) for key, item in items}
    if isinstance(value, list | tuple):
        return [plain(item, change) for item in cast("Sequence[Any]", value)]
    return value


def _unused(text: str) -> str:
    for code in _PRIVATE_USE:
        if chr(code) not in text and _escaped(chr(code)) not in text:
            return chr(code)
    raise InvalidRequest("the messages use every private-use character there is")


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]
