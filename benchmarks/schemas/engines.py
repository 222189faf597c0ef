"""The engines that are compared, each behind the same few verbs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol

from agentform.errors import AgentformError
from agentform.grammar.compile import CompiledGrammar, Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary

__all__ = ["ENGINES", "SAMPLED", "Agentform", "Engine", "Following", "grammar_text"]


class Following(Protocol):
    """One text on its way through a grammar."""

    def mask(self) -> Any:
        """The mask of the next token."""
        ...

    def take(self, token_id: int) -> bool:
        """Advance; False when the token is not allowed."""
        ...

    def is_complete(self) -> bool:
        """Whether the text may end here."""
        ...


class Engine(Protocol):
    """A way from a JSON Schema to masks."""

    def compile(self, schema: Any) -> Any:
        """The compiled grammar; raises ValueError or AgentformError with the reason."""
        ...

    def follow(self, compiled: Any) -> Following:
        """Start at the beginning."""
        ...


class Agentform:
    """agentform's own path: normalised schema, keyword table, ladder of weaker forms."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._compiler = Compiler(vocabulary, keep=1)

    def compile(self, schema: Any) -> CompiledGrammar:
        return self._compiler.compile(GrammarSpec(kind="json_schema", text=schema))

    def follow(self, compiled: CompiledGrammar) -> Following:
        return _OwnFollowing(compiled)

    def time_in_place(self, schema: Any) -> float:
        """Seconds for compiling with text around the value."""
        spec = GrammarSpec(kind="json_schema", text=schema, lead='"', follow="}")
        started = time.perf_counter()
        self._compiler.compile(spec)
        return time.perf_counter() - started


class _OwnFollowing:
    def __init__(self, compiled: CompiledGrammar) -> None:
        self._matcher = compiled.matcher()

    def mask(self) -> Any:
        return self._matcher.allowed()

    def take(self, token_id: int) -> bool:
        try:
            self._matcher.accept(token_id)
        except AgentformError:
            return False
        return True

    def is_complete(self) -> bool:
        return self._matcher.is_complete()


class _Llguidance:
    def __init__(self, vocabulary: Vocabulary, *, lenient: bool) -> None:
        self._native = vocabulary.native
        self._options: Any = {"lenient": lenient, "coerce_one_of": lenient}

    def compile(self, schema: Any) -> Any:
        from llguidance import LLMatcher

        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=self._options)
        matcher = LLMatcher(self._native, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def follow(self, compiled: Any) -> Following:
        return _NativeFollowing(compiled.deep_copy())


class _NativeFollowing:
    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def mask(self) -> Any:
        return self._matcher.compute_bitmask()

    def take(self, token_id: int) -> bool:
        return self._matcher.consume_token(token_id)

    def is_complete(self) -> bool:
        return self._matcher.is_accepting()


class _Xgrammar:
    def __init__(self, vocabulary: Vocabulary, *, strict: bool) -> None:
        import xgrammar

        tokens = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
        info = xgrammar.TokenizerInfo(
            tokens, xgrammar.VocabType.RAW, vocab_size=vocabulary.size, stop_token_ids=list(vocabulary.eos_ids)
        )
        self._xgrammar = xgrammar
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=2, cache_enabled=False)
        self._bits = xgrammar.allocate_token_bitmask(1, vocabulary.size)
        self._strict = strict

    def compile(self, schema: Any) -> Any:
        try:
            return self._compiler.compile_json_schema(json.dumps(schema), strict_mode=self._strict)
        except RuntimeError as error:
            raise ValueError(str(error)) from error

    def follow(self, compiled: Any) -> Following:
        return _XgrammarFollowing(self._xgrammar.GrammarMatcher(compiled), self._bits)


class _XgrammarFollowing:
    def __init__(self, matcher: Any, bits: Any) -> None:
        self._matcher = matcher
        self._bits = bits

    def mask(self) -> Any:
        self._matcher.fill_next_token_bitmask(self._bits)
        return self._bits

    def take(self, token_id: int) -> bool:
        return self._matcher.accept_token(token_id)

    def is_complete(self) -> bool:
        return self._matcher.is_completed()


ENGINES: dict[str, Callable[[Vocabulary], Engine]] = {
    "agentform": Agentform,
    "llguidance": lambda vocabulary: _Llguidance(vocabulary, lenient=False),
    "llguidance lenient": lambda vocabulary: _Llguidance(vocabulary, lenient=True),
    "xgrammar": lambda vocabulary: _Xgrammar(vocabulary, strict=True),
    "xgrammar open": lambda vocabulary: _Xgrammar(vocabulary, strict=False),
}
"""By name: `lenient` leaves out what llguidance does not implement; `open` lets objects have further keys."""

SAMPLED = {"xgrammar": 16, "xgrammar open": 320}
"""Engines that take a second or more for many schemas: they see one schema in so many."""


def grammar_text(schema: Any) -> str:
    """The text of agentform's grammar for the whole of a schema, as for a free leaf at its root."""
    from agentform.schema.draft import draft_of
    from agentform.schema.json_text import dumps
    from agentform.schema.refs import Document

    return dumps(Document(schema, draft_of(schema)).closed({"$ref": "#"}))
