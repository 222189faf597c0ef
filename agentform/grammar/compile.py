"""From a GrammarSpec to a matcher: one llguidance grammar for `lead + value + follow`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

from llguidance import LLMatcher, regex_to_lark

from agentform._util.lru import BoundedDict
from agentform.errors import GrammarError, Relaxation
from agentform.grammar.compile_trial import TOO_LONG, CompileTrial
from agentform.grammar.limits import CompileLimits
from agentform.grammar.loosen import RUNGS
from agentform.grammar.matcher import Matcher
from agentform.grammar.prepare import pattern_fault, prepare
from agentform.grammar.rehearsal import may_be_hard
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.store import GrammarStore, Recipe, recipe_key
from agentform.grammar.vocabulary import Vocabulary
from agentform.json_schema.keywords import Schema

__all__ = ["CompiledGrammar", "Compiler", "lark_of", "parse_schema"]

_JSON_STYLE: dict[str, Any] = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
    "coerce_one_of": True,
    # Printable text stays raw UTF-8; only control characters may be written as \u00XX.
    "json_allow_general_unicode_escapes": False,
}
_WORTH_STORING_S = 0.05
_SCHEMA_ALONE, _SCHEMA_END = '{"grammars": [{"json_schema": ', "}]}"


@dataclass(frozen=True, kw_only=True)
class CompiledGrammar:
    """A grammar ready to match; it may be shared, each `matcher()` is used by one request."""

    spec: GrammarSpec
    relaxed: tuple[Relaxation, ...]
    """What the grammar does not enforce of a JSON Schema; empty when all is enforced."""
    vocabulary: Vocabulary
    prototype: LLMatcher
    """Never advanced; matchers are its copies."""
    source: str
    """What llguidance compiled: Lark text, or its JSON form of a schema alone."""

    @property
    def lark(self) -> str:
        """The source as Lark text, for engines that compile it themselves."""
        if not self.source.startswith(_SCHEMA_ALONE):
            return self.source
        return f"start: %json {self.source.removeprefix(_SCHEMA_ALONE).removesuffix(_SCHEMA_END)}"

    def matcher(self) -> Matcher:
        """A fresh matcher at the start of `lead`."""
        return Matcher(self.prototype.deep_copy(), self.vocabulary)


class Compiler:
    """Compiles grammars for one vocabulary and keeps the last `keep` of them; safe to call from any thread.

    With a `store`, what was hard to find out about a schema is kept on disk too.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        keep: int = 256,
        limits: CompileLimits | None = None,
        store: GrammarStore | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._limits = limits or CompileLimits()
        self._store = store
        self._kept: BoundedDict[GrammarSpec, CompiledGrammar] = BoundedDict(
            self._limits.kept_bytes, weight=lambda spec, _: max(len(spec.text), self._limits.kept_bytes // keep)
        )
        self._lock = Lock()

    def cached(self, spec: GrammarSpec) -> CompiledGrammar | None:
        """The compiled grammar, if it is at hand."""
        with self._lock:
            return self._kept.use(spec)

    def compile(self, spec: GrammarSpec) -> CompiledGrammar:
        """Compile `spec`, or take it from what was compiled before.

        What llguidance cannot enforce of a JSON Schema is left out and listed.

        Raises:
            GrammarError: for a text that is not what its kind says, is too large, or that no value can match.
        """
        found = self.cached(spec)
        if found is not None:
            return found
        size = len(spec.text.encode())
        if size > self._limits.text_bytes:
            raise GrammarError(f"a grammar of {size:,} bytes is over the limit of {self._limits.text_bytes:,}")
        trial = CompileTrial(self._vocabulary, self._limits)
        made = self._of_schema(spec, trial) if spec.kind == "json_schema" else self._of_text(spec, trial)
        if trial.may_keep:
            with self._lock:
                self._kept[spec] = made
        return made

    def _of_text(self, spec: GrammarSpec, trial: CompileTrial) -> CompiledGrammar:
        source = lark_of(spec)
        prototype, problem = trial.of(source)
        if prototype is None or problem:
            raise GrammarError(f"{spec.kind} grammar does not compile: {problem}")
        return self._made(spec, prototype, (), source)

    def _of_schema(self, spec: GrammarSpec, trial: CompileTrial) -> CompiledGrammar:
        if self._store is None:
            return self._search(spec, trial)
        key = recipe_key("llguidance", spec, self._vocabulary.digest)
        known = self._store.get(key)
        if known is not None:
            prototype, problem = trial.of(known.text)
            if prototype is not None and not problem:
                return self._made(spec, prototype, known.relaxed, known.text)
        started = time.monotonic()
        made = self._search(spec, trial)
        if trial.may_store and time.monotonic() - started > _WORTH_STORING_S:
            self._store.put(key, Recipe(text=made.source, relaxed=made.relaxed))
        return made

    def _search(self, spec: GrammarSpec, trial: CompileTrial) -> CompiledGrammar:
        """The strongest form of the schema that compiles."""
        problem = "no form of it compiles"
        for schema, relaxed in self._forms(parse_schema(spec.text), trial):
            source = _source(spec, _styled(schema))
            prototype, problem = trial.of(source, schema)
            if prototype is not None and not problem:
                found = tuple(Relaxation(pointer="", what=text) for text in prototype.get_grammar_warnings())
                return self._made(spec, prototype, relaxed + found, source)
            if problem == TOO_LONG:
                break
        return self._weakest(spec, problem, trial)

    def _weakest(self, spec: GrammarSpec, problem: str, trial: CompileTrial) -> CompiledGrammar:
        """A form that compiles at once."""
        whole = prepare(parse_schema(spec.text), "llguidance").schema
        for rung in RUNGS[-3:] if may_be_hard(whole) else RUNGS[-2:]:
            schema = rung.loosen(whole)
            source = _source(spec, _styled(schema))
            prototype, again = trial.of(source, schema)
            if prototype is not None and not again:
                said = f"{rung.what}: {problem}" if problem == TOO_LONG else rung.what
                return self._made(spec, prototype, (Relaxation(pointer="", what=said),), source)
        raise GrammarError(f"json_schema grammar does not compile: {problem}")

    def _forms(self, schema: Schema, trial: CompileTrial) -> Iterator[tuple[Schema, tuple[Relaxation, ...]]]:
        started = time.monotonic()
        prepared = prepare(schema, "llguidance")
        yield prepared.schema, prepared.relaxed
        faults = partial(_pattern_fault, trial), partial(_step_fault, trial)
        prepared = prepare(schema, "llguidance", fault_of=faults[0], step_fault=faults[1])
        yield prepared.schema, prepared.relaxed
        for rung in RUNGS[:-2]:
            if time.monotonic() - started < self._limits.compile_s:
                yield rung.loosen(prepared.schema), (*prepared.relaxed, Relaxation(pointer="", what=rung.what))

    def _made(
        self, spec: GrammarSpec, prototype: LLMatcher, relaxed: tuple[Relaxation, ...], source: str
    ) -> CompiledGrammar:
        return CompiledGrammar(
            spec=spec, relaxed=relaxed, vocabulary=self._vocabulary, prototype=prototype, source=source
        )


def _pattern_fault(trial: CompileTrial, pattern: str) -> str:
    if fault := pattern_fault(pattern):
        return fault
    _, problem = trial.of(f"start: %json {_styled({'type': 'string', 'pattern': pattern})}")
    return "something that llguidance does not take" if problem else ""


def _step_fault(trial: CompileTrial, step: float) -> str:
    _, problem = trial.of(f"start: %json {_styled({'type': 'number', 'multipleOf': step})}")
    return "a step that llguidance does not count in" if problem else ""


def lark_of(spec: GrammarSpec) -> str:
    """The Lark text, as llguidance reads it, of `lead + value + follow`.

    A JSON Schema is taken as it is, without what llguidance does not implement.

    Raises:
        GrammarError: for one that is not JSON.
    """
    if spec.kind == "regex":
        # One terminal: as three, a value such as /.*/ would swallow what follows it.
        whole = f"{_escaped(spec.lead)}(?:{spec.text}){_escaped(spec.follow)}"
        return f"start: /{regex_to_lark(whole)}/"
    if spec.kind == "json_schema":
        return _lark(spec, f"%json {_styled(parse_schema(spec.text))}")
    return _lark(spec, f"%lark {{\n{spec.text}\n}}")


def parse_schema(text: str) -> Schema:
    """The JSON Schema that a specification's text is.

    Raises:
        GrammarError: it is none.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"the JSON Schema is not JSON: {error}") from error
    if schema is not True and not isinstance(schema, dict):
        raise GrammarError(f"a JSON Schema is an object or true, not {text[:80]!r}")
    return schema


def _source(spec: GrammarSpec, styled: str) -> str:
    """What llguidance is given; a schema alone compiles in half the time of one inside Lark text."""
    if spec.lead or spec.follow:
        return _lark(spec, f"%json {styled}")
    return _SCHEMA_ALONE + styled + _SCHEMA_END


def _lark(spec: GrammarSpec, value: str) -> str:
    parts = [_literal(spec.lead), "value", _literal(spec.follow)]
    return f"start: {' '.join(part for part in parts if part)}\nvalue: {value}\n"


def _styled(schema: Schema) -> str:
    body = schema if isinstance(schema, dict) else {}
    return json.dumps({**body, "x-guidance": {**_JSON_STYLE, "lenient": True}})


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


def _escaped(text: str) -> str:
    """`text` as a regular expression that matches it and nothing else.

    Only what the Rust regex syntax gives a meaning: an escape more, such as `\\<`, has a meaning of its own.
    """
    return re.sub(r"[\\.+*?()|\[\]{}^$#&~-]", r"\\\g<0>", text)
