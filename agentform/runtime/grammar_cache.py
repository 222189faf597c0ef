"""The grammars of one engine, compiled over its vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agentform._util.paths import cache_home
from agentform._util.threads import GRAMMARS
from agentform.grammar.compile import CompiledGrammar, Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.store import GrammarStore
from agentform.grammar.vocabulary import ReadTokenizer, Vocabulary

__all__ = ["Grammars"]


class Grammars:
    """The compiler is made when the first grammar is asked for."""

    def __init__(
        self,
        tokenizer: Callable[[], str | ReadTokenizer],
        *,
        vocabulary_size: int,
        eos_ids: Callable[[], Collection[int]],
    ) -> None:
        """`tokenizer` is read, or its JSON text; tokens from `vocabulary_size` on are none."""
        self._tokenizer = tokenizer
        self._eos_ids = eos_ids
        self._size = vocabulary_size
        self._compiler: Compiler | None = None

    async def compiled(self, spec: GrammarSpec) -> CompiledGrammar:
        """Off the event loop, unless it is at hand: a big schema takes hundreds of milliseconds.

        Raises:
            GrammarError: the grammar does not compile, or its matcher stops with an error.
        """
        found = self._compiler.cached(spec) if self._compiler is not None else None
        return found or await GRAMMARS.run(self._compile, spec)

    def _compile(self, spec: GrammarSpec) -> CompiledGrammar:
        if self._compiler is None:
            vocabulary = Vocabulary(self._tokenizer(), size=self._size, eos_ids=self._eos_ids())
            self._compiler = Compiler(vocabulary, store=GrammarStore(cache_home() / "grammars"))
        return self._compiler.compile(spec)
