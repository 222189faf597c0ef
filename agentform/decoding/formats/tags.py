"""Objects and lists as tags within tags, as MiniMax M3 writes them: `<a>1</a><b><item>x</item></b>`.

Nothing is escaped, and a null in an object is left out. What reads such text takes a word for the value that it would
be in JSON, and else for a string.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from agentform.decoding.formats.reading import Unreadable, read_json
from agentform.messages import JsonValue
from agentform.schema.json_text import dumps, plain

__all__ = ["TaggedValues", "guessed"]

_MAX_DEPTH = 200


@dataclass(frozen=True, kw_only=True)
class TaggedValues:
    """`open` key `middle` value `close` key `end` for each item; the items of lists have the key `item`."""

    open: str
    middle: str
    close: str
    end: str
    item: str = "item"
    kind: Literal["tagged"] = "tagged"

    def write(self, value: JsonValue) -> str:
        """The value's text."""
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping):
            return "".join(self._tagged(str(key), self.write(item)) for key, item in value.items() if item is not None)
        if isinstance(value, list | tuple):
            return "".join(self._tagged(self.item, self.write(item)) for item in cast("list[JsonValue]", value))
        return "" if value is None else dumps(plain(value))

    def before(self, key: str) -> str:
        """What stands before an item with this key."""
        return self.open + key + self.middle

    def after(self, key: str) -> str:
        """What stands after an item with this key."""
        return self.close + key + self.end

    def read(self, text: str, at: int = 0) -> tuple[JsonValue, int]:
        """The object or list that begins at `at`, and where it ends.

        Raises:
            Unreadable: there is no such value.
        """
        value, end = self.read_tags(text, at)
        return guessed(value), end

    def read_tags(self, text: str, at: int = 0) -> tuple[JsonValue, int]:
        """The same, with every other value as its text: what it is, a schema may say.

        Raises:
            Unreadable: there is no such value.
        """
        return self._container(text, at, 0)

    def _tagged(self, key: str, value: str) -> str:
        return self.before(key) + value + self.after(key)

    def _container(self, text: str, at: int, depth: int) -> tuple[JsonValue, int]:
        if depth > _MAX_DEPTH:
            raise Unreadable("nested too deeply")
        items: list[tuple[str, JsonValue]] = []
        while text.startswith(self.open, at) and not text.startswith(self.close, at):
            key, value, at = self._item(text, at + len(self.open), depth)
            items.append((key, value))
        if not items:
            raise Unreadable(f"no {self.open!r} at {text[at : at + 20]!r}")
        if all(key == self.item for key, _ in items):
            return [value for _, value in items], at
        return dict(items), at

    def _item(self, text: str, at: int, depth: int) -> tuple[str, JsonValue, int]:
        begin = text.find(self.middle, at)
        if begin < 0:
            raise Unreadable("a tag without an end")
        key, begin = text[at:begin], begin + len(self.middle)
        after = self.after(key)
        if text.startswith(self.open, begin) and not text.startswith(after, begin):
            value, end = self._container(text, begin, depth + 1)
        else:
            end = text.find(after, begin)
            value = text[begin:end]
        if not text.startswith(after, end) or end < 0:
            raise Unreadable(f"{after!r} is missing")
        return key, value, end + len(after)

    def beginning(self, tokens: Iterator[tuple[str, str]]) -> Iterator[str]:
        """The beginning of a JSON text as tags; `tokens` are its pieces, each with what it says.

        A string that is not whole is the last one.
        """
        keys: list[str | None] = []  # of each open object, once it stands there; lists have none of their own
        lists: list[bool] = []
        for token, said in tokens:
            if token in "{[":
                if lists and lists[-1]:
                    yield self._opened(keys)
                keys, lists = [*keys, None], [*lists, token == "["]
            elif token in "}]":
                if keys[-1] is not None:
                    yield self.after(keys[-1])
                keys.pop()
                lists.pop()
            elif token == ",":
                yield self.after(keys[-1] or self.item)
                keys[-1] = None
            elif token != ":":
                yield from self._piece(keys, lists, said, whole=len(token) > 1 and token.endswith('"'))

    def _opened(self, keys: list[str | None]) -> str:
        """What stands before the next item of the innermost list."""
        keys[-1] = self.item
        return self.before(self.item)

    def _piece(self, keys: list[str | None], lists: list[bool], said: str, *, whole: bool) -> Iterator[str]:
        """A key, or a value that is no container."""
        if not lists:
            yield said
        elif lists[-1]:
            yield self._opened(keys) + said
        elif keys[-1] is None:
            keys[-1] = said
            yield self.before(said) if whole else self.open + said
        else:
            yield said


def guessed(value: JsonValue) -> JsonValue:
    """Texts as JSON reads them, where it does, and else the strings that they are."""
    if isinstance(value, Mapping):
        return {key: guessed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [guessed(item) for item in cast("list[JsonValue]", value)]
    text = str(value)
    try:
        read, end = read_json(text, 0)
    except Unreadable:
        return text
    return read if end == len(text) and not isinstance(read, str | list | dict) else text
