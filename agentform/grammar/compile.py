"""From a GrammarSpec to a matcher: one llguidance grammar for `lead + value + follow`."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

from llguidance import LLMatcher, regex_to_lark

from agentform.errors import GrammarError
from agentform.grammar.matcher import Matcher
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary

__all__ = ["CompiledGrammar", "Compiler", "lark_of"]

_JSON_STYLE: dict[str, Any] = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
    "coerce_one_of": True,
    # Printable text stays raw UTF-8; only control characters may be written as \u00XX.
    "json_allow_general_unicode_escapes": False,
}


@dataclass(frozen=True, kw_only=True)
class CompiledGrammar:
    """A grammar ready to match; it may be shared, each `matcher()` is used by one request."""

    spec: GrammarSpec
    relaxed: str | None
    """What llguidance could not enforce and was therefore left out; `None` when all is enforced."""
    vocabulary: Vocabulary
    prototype: LLMatcher
    """Never advanced; matchers are its copies."""

    def matcher(self) -> Matcher:
        """A fresh matcher at the start of `lead`."""
        return Matcher(self.prototype.deep_copy(), self.vocabulary)


class Compiler:
    """Compiles grammars for one vocabulary and keeps the last `keep` of them; safe to call from any thread."""

    def __init__(self, vocabulary: Vocabulary, *, keep: int = 256) -> None:
        self._vocabulary = vocabulary
        self._keep = keep
        self._kept: OrderedDict[GrammarSpec, CompiledGrammar] = OrderedDict()
        self._lock = Lock()

    def cached(self, spec: GrammarSpec) -> CompiledGrammar | None:
        """The compiled grammar, if it is at hand."""
        with self._lock:
            found = self._kept.get(spec)
            if found is not None:
                self._kept.move_to_end(spec)
            return found

    def compile(self, spec: GrammarSpec) -> CompiledGrammar:
        """Compile `spec`, or take it from what was compiled before.

        Raises GrammarError if it does not compile even with what llguidance does not implement left out.
        """
        found = self.cached(spec)
        if found is not None:
            return found
        made = self._build(spec)
        with self._lock:
            self._kept[spec] = made
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        return made

    def _build(self, spec: GrammarSpec) -> CompiledGrammar:
        prototype, problem = self._try(lark_of(spec))
        relaxed = None
        if problem and spec.kind == "json_schema":
            relaxed = problem
            prototype, problem = self._try(lark_of(spec, lenient=True))
        if problem:
            raise GrammarError(f"{spec.kind} grammar does not compile: {problem}")
        return CompiledGrammar(
            spec=spec, relaxed=relaxed, vocabulary=self._vocabulary, prototype=prototype
        )

    def _try(self, lark: str) -> tuple[LLMatcher, str]:
        matcher = LLMatcher(self._vocabulary.native, lark, log_level=0)
        return matcher, matcher.get_error() if matcher.is_error() else ""


def lark_of(spec: GrammarSpec, *, lenient: bool = False) -> str:
    """The Lark text, as llguidance reads it, of `lead + value + follow`.

    `lenient` leaves out JSON Schema keywords that llguidance does not implement.
    Raises GrammarError for a JSON Schema that is not JSON.
    """
    if spec.kind == "regex":
        # One terminal: as three, a value such as /.*/ would swallow what follows it.
        whole = f"{_escaped(spec.lead)}(?:{spec.text}){_escaped(spec.follow)}"
        return f"start: /{regex_to_lark(whole)}/"
    value = f"%json {_styled(spec.text, lenient)}" if spec.kind == "json_schema" else f"%lark {{\n{spec.text}\n}}"
    parts = [_literal(spec.lead), "value", _literal(spec.follow)]
    return f"start: {' '.join(part for part in parts if part)}\nvalue: {value}\n"


def _styled(text: str, lenient: bool) -> str:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise GrammarError(f"the JSON Schema is not JSON: {error}") from error
    style = {**_JSON_STYLE, "lenient": lenient}
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise GrammarError(f"a JSON Schema is an object or true, not {text[:80]!r}")
    return json.dumps({**schema, "x-guidance": style})


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


def _escaped(text: str) -> str:
    """`text` as a regular expression that matches it and nothing else."""
    return re.sub(r"[^\w\s]", lambda found: "\\" + found.group(), text, flags=re.ASCII) if text.isascii() else _by_char(text)


def _by_char(text: str) -> str:
    return "".join(_escaped(char) if char.isascii() else char for char in text)
