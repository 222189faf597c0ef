"""The grammar of a string that is written as it is: what its schema asks of it, and the mark that closes it.

::

    <parameter=order>  AB-1042  </parameter>      start: END0
                                                  END0: VALUE "</parameter>"
                                                  VALUE: /[A-Z]{2}-[0-9]{4}/ & ~/(?s:.*)<\\/parameter>(?s:.*)/
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agentform.grammar.spec import GrammarSpec
from agentform.messages import JsonValue
from agentform.runtime.engine import Tokenizer
from agentform.schema.form import Free

__all__ = ["raw_grammar"]

_ANY = "(?s:.*)"
_SLASH = re.compile(r"\\.|/", re.DOTALL)
_TAG = re.compile(r"[<\[].+[>\]]")
_SAFE = re.compile(r"[A-Za-z0-9 _]")


def raw_grammar(tokenizer: Tokenizer, leaf: Free, stops: Sequence[str]) -> GrammarSpec | None:
    """The grammar of the string with one of `stops` after it; `None` where the schema asks for no more than a string.

    What cannot be told in such a grammar is left out, or refused when it is compiled: the validator knows it.
    """
    rules = list(_rules(cast("Mapping[str, Any]", leaf.schema))) if isinstance(leaf.schema, Mapping) else []
    if not rules:
        return None
    held = "|".join(map(_escaped, stops))
    value = " & ".join([*rules, f"~{_terminal(f'{_ANY}(?:{held}){_ANY}')}"])
    endings = [ending for stop in stops for ending in _endings(tokenizer, stop)]
    start = " | ".join(f"END{at}{token}" for at, (_, token) in enumerate(endings))
    # A value and what ends it are one terminal: as two, the value would take all that it may.
    ends = "".join(f"END{at}: VALUE {_literal(text)}\n" for at, (text, _) in enumerate(endings))
    return GrammarSpec(kind="lark", text=f"start: {start}\n{ends}VALUE: {value}\n")


def _rules(schema: Mapping[str, Any]) -> Iterator[str]:
    """Terminals that the value must match, each as a whole."""
    least, most, pattern = schema.get("minLength", 0), schema.get("maxLength"), schema.get("pattern")
    if least or most is not None:
        yield _terminal(f"(?s:.){{{int(least)},{'' if most is None else int(most)}}}")
    if isinstance(pattern, str) and (whole := _whole(pattern)) is not None:
        yield _terminal(whole)
    options: Sequence[JsonValue] = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if options:
        yield _terminal("|".join(_escaped(option) for option in options if isinstance(option, str)))


def _whole(pattern: str) -> str | None:
    """The expression for all of a text in which `pattern` is found; `None` where no automaton says that."""
    starts, ends = pattern.startswith("^"), pattern.endswith("$") and not _is_escaped(pattern, len(pattern) - 1)
    inner = pattern[1 if starts else 0 : len(pattern) - 1 if ends else None]
    if ((starts or ends) and "|" in inner) or re.search(r"(?<![\\\[])[\^$]", inner):
        return None  # an anchor of one alternative only, or in the middle
    return f"{'' if starts else _ANY}(?:{inner}){'' if ends else _ANY}"


def _is_escaped(text: str, at: int) -> bool:
    return (at - len(text[:at].rstrip("\\"))) % 2 == 1


def _terminal(expression: str) -> str:
    return "/" + _SLASH.sub(lambda found: "\\/" if found[0] == "/" else found[0], expression).replace("\n", "\\n") + "/"


def _escaped(text: str) -> str:
    return "".join(letter if _SAFE.fullmatch(letter) else f"\\x{{{ord(letter):x}}}" for letter in text)


def _endings(tokenizer: Tokenizer, stop: str) -> Iterator[tuple[str, str]]:
    """The mark: the text that ends the value, and the token after it, if there is one.

    What of the mark is a token of its own may be no text to a grammar, which then knows it by its id.
    """
    yield stop, ""
    *before, last = tokenizer.encode(stop, control=True)
    if _TAG.fullmatch(tokenizer.decode((last,))):
        yield tokenizer.decode(before), f" <[{last}]>"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
