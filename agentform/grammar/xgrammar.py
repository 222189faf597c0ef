"""xgrammar as a second grammar engine behind the same GrammarSpec; needs the extra "xgrammar"."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from agentform._util.install import install_line
from agentform._util.lru import BoundedDict
from agentform.errors import GrammarError, MissingDependency, Relaxation
from agentform.grammar.compile import parse_schema
from agentform.grammar.limits import CompileLimits
from agentform.grammar.loosen import RUNGS
from agentform.grammar.matcher import Forced
from agentform.grammar.prepare import prepare
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.store import GrammarStore, Recipe, recipe_key
from agentform.grammar.vocabulary import Vocabulary
from agentform.grammar.xgrammar_schema import adapt
from agentform.json_schema.keywords import Schema

__all__ = ["XGrammarCompiled", "XGrammarCompiler", "XGrammarMatcher"]

_Way: TypeAlias = tuple[Callable[[], Any], tuple[Relaxation, ...]]


class XGrammarMatcher:
    """A grammar's state after some tokens, as `Matcher`. Not thread-safe; every method may raise GrammarError."""

    def __init__(self, native: Any, vocabulary: Vocabulary, bits: Any) -> None:
        self._native = native
        self._vocabulary = vocabulary
        self._bits = bits

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Which ids may come next, shape [vocabulary size]."""
        self._native.fill_next_token_bitmask(self._bits)
        bits = np.unpackbits(self._bits.numpy().view(np.uint8)[0], bitorder="little")
        return bits[: self._vocabulary.size].view(np.bool_)

    def accept(self, *token_ids: int) -> None:
        """Advance by tokens that the grammar allows."""
        for token in token_ids:
            if not self._native.accept_token(token):
                raise GrammarError(f"the grammar does not allow token {token} of {token_ids}")

    def is_complete(self) -> bool:
        """Whether the text so far matches; more may still be possible."""
        return self._native.is_terminated() or self._native.is_completed()

    def forced(self) -> Forced:
        """What is forced now; does not advance."""
        text = self._native.find_jump_forward_string()
        ahead = self._native.fork() if text else self._native
        if text and not ahead.accept_string(text):
            return Forced(ends=False)
        if self._is_over(ahead):
            return Forced(ends=True, remainder=text.encode())
        return Forced(ends=False, token_ids=tuple(self._native.find_jump_forward_tokens()) if text else ())

    def _is_over(self, native: Any) -> bool:
        if native.is_terminated():
            return True
        if not native.is_completed():
            return False
        after = XGrammarMatcher(native, self._vocabulary, self._bits).allowed()
        return set(np.flatnonzero(after)) <= set(self._vocabulary.eos_ids)


@dataclass(frozen=True, kw_only=True)
class XGrammarCompiled:
    """A grammar ready to match; it may be shared, each `matcher()` is used by one request."""

    spec: GrammarSpec
    relaxed: tuple[Relaxation, ...]
    """What the grammar does not enforce of a JSON Schema."""
    vocabulary: Vocabulary
    native: Any

    def matcher(self) -> XGrammarMatcher:
        """A fresh matcher at the start of `lead`."""
        xgrammar = _imported()
        bits = xgrammar.allocate_token_bitmask(1, self.vocabulary.size)
        return XGrammarMatcher(xgrammar.GrammarMatcher(self.native), self.vocabulary, bits)


class XGrammarCompiler:
    """The counterpart of `Compiler`; safe to call from any thread. Lark text is read as xgrammar reads it.

    Raises:
        MissingDependency: xgrammar is not installed.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        keep: int = 256,
        limits: CompileLimits | None = None,
        store: GrammarStore | None = None,
        num_threads: int = 2,
    ) -> None:
        self._xgrammar = _imported()
        self._vocabulary = vocabulary
        self._limits = limits or CompileLimits()
        self._store = store
        self._info = _tokenizer_info(self._xgrammar, vocabulary)
        self._native = self._xgrammar.GrammarCompiler(self._info, max_threads=num_threads, cache_enabled=False)
        self._kept: BoundedDict[GrammarSpec, XGrammarCompiled] = BoundedDict(
            self._limits.kept_bytes, weight=lambda spec, _: max(len(spec.text), self._limits.kept_bytes // keep)
        )
        self._lock = Lock()

    def cached(self, spec: GrammarSpec) -> XGrammarCompiled | None:
        """The compiled grammar, if it is at hand."""
        with self._lock:
            return self._kept.use(spec)

    def compile(self, spec: GrammarSpec) -> XGrammarCompiled:
        """See `Compiler.compile`."""
        found = self.cached(spec)
        if found is not None:
            return found
        size = len(spec.text.encode())
        if size > self._limits.text_bytes:
            raise GrammarError(f"a grammar of {size:,} bytes is over the limit of {self._limits.text_bytes:,}")
        made = self._stored(spec) or self._build(spec)
        with self._lock:
            self._kept[spec] = made
        return made

    def _stored(self, spec: GrammarSpec) -> XGrammarCompiled | None:
        if self._store is None:
            return None
        recipe = self._store.get(recipe_key("xgrammar", spec, self._vocabulary.digest))
        if recipe is None:
            return None
        try:
            native = self._xgrammar.CompiledGrammar.deserialize_json(recipe.text, self._info)
        except RuntimeError:  # written by a version that this one does not read
            return None
        return self._made(spec, native, recipe.relaxed)

    def _build(self, spec: GrammarSpec) -> XGrammarCompiled:
        problem = ""
        for value, relaxed in self._values(spec):
            try:
                native = self._native.compile_grammar(self._between(spec, value()))
            except RuntimeError as error:
                problem = str(error).splitlines()[-1]
                continue
            if self._store is not None:
                key = recipe_key("xgrammar", spec, self._vocabulary.digest)
                self._store.put(key, Recipe(text=native.serialize_json(), relaxed=relaxed))
            return self._made(spec, native, relaxed)
        raise GrammarError(f"{spec.kind} grammar does not compile: {problem}")

    def _values(self, spec: GrammarSpec) -> Iterator[_Way]:
        """Ways to make the grammar of the value, the strongest first, with what each loses."""
        grammar = self._xgrammar.Grammar
        if spec.kind == "regex":
            yield (lambda: grammar.from_regex(spec.text)), ()
        elif spec.kind == "lark":
            yield (lambda: grammar.from_lark(spec.text)), ()
        else:
            prepared = prepare(parse_schema(spec.text), "xgrammar")
            yield self._way(prepared.schema, prepared.relaxed)
            for rung in RUNGS:
                lost = (*prepared.relaxed, Relaxation(pointer="", what=rung.what))
                yield self._way(rung.loosen(prepared.schema), lost)

    def _way(self, schema: Schema, lost: tuple[Relaxation, ...]) -> _Way:
        adapted, more = adapt(schema)
        text = json.dumps(adapted if isinstance(adapted, dict) else {}, ensure_ascii=False)
        make = self._xgrammar.Grammar.from_json_schema
        return (lambda: make(text, any_whitespace=False, strict_mode=False)), lost + more

    def _between(self, spec: GrammarSpec, value: Any) -> Any:
        grammar = self._xgrammar.Grammar
        around = [
            grammar.from_ebnf(f"root ::= {json.dumps(text)}") if text else None for text in (spec.lead, spec.follow)
        ]
        parts = [part for part in (around[0], value, around[1]) if part is not None]
        return grammar.concat(*parts) if len(parts) > 1 else value

    def _made(self, spec: GrammarSpec, native: Any, relaxed: tuple[Relaxation, ...]) -> XGrammarCompiled:
        return XGrammarCompiled(spec=spec, relaxed=relaxed, vocabulary=self._vocabulary, native=native)


def _imported() -> Any:
    try:
        import xgrammar
    except ImportError as error:
        raise MissingDependency(f"this grammar engine needs: {install_line('xgrammar')}") from error
    return xgrammar


def _tokenizer_info(xgrammar: Any, vocabulary: Vocabulary) -> Any:
    tokens = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
    return xgrammar.TokenizerInfo(
        tokens, xgrammar.VocabType.RAW, vocab_size=vocabulary.size, stop_token_ids=list(vocabulary.eos_ids)
    )
