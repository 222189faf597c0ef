"""Names and values of the inputs from which a chat template could build a control token.

Some templates write tags around names: `'<' ~ name ~ '>'`. With a property called `|im_end|` that is a control token
which no input spells. What could be a piece of one is known only after rendering, when it is known which there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

__all__ = ["pieces_of"]

_NAMING = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "arguments"})
"""Keys under which the keys are somebody's names."""
_STRUCTURE = frozenset({"role", "type"})
"""Keys whose values are words of the format, which templates compare."""
_WORDS = frozenset(
    {"system", "developer", "user", "assistant", "tool", "function", "ipython", "model", "object", "array", "string"}
    | {"number", "integer", "boolean", "null"}
)


def pieces_of(
    tokens: Collection[str], messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None
) -> frozenset[str]:
    """The texts in the inputs that are the middle of one of `tokens`, or begin with the end of one.

    What ends with the beginning of one is no matter here: it is broken up before anything is rendered.
    """
    if not tokens:
        return frozenset()
    spelt = {token.lower() for token in tokens}  # templates may change the case of what they are given
    ends = tuple({token[start:] for token in spelt for start in range(1, len(token))})
    texts = {text: text.strip().lower() for text in _texts([*messages, *(tools or ())])}
    return frozenset(
        text
        for text, bare in texts.items()
        if bare and (bare.startswith(ends) or any(bare in token and bare != token for token in spelt))
    )


def _texts(value: Any, *, named: bool = False) -> Iterator[str]:
    """Every text that is not the format's own; `named`: the keys of a mapping are names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            if named and isinstance(key, str):
                yield key
            if not (key in _STRUCTURE and not named and isinstance(item, str) and item in _WORDS):
                yield from _texts(item, named=not named and key in _NAMING)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _texts(item)
