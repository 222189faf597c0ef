"""How much a grammar may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CompileLimits"]


@dataclass(frozen=True, kw_only=True)
class CompileLimits:
    """Bounds on the work of compiling a grammar and of following it.

    llguidance cannot be interrupted by a clock; its own bounds are amounts of work, of which a usual machine does
    so many a second that a step within them takes tens of milliseconds at most.
    """

    text_bytes: int = 4_000_000
    """Size of a specification's text; a larger one raises GrammarError without being compiled."""
    compile_s: float = 2.0
    """Seconds after which no better schema is looked for: what compiles at once is taken.

    For one form of a schema they are seconds of the processor; it is then weakened, below its upper levels at last.
    """
    kept_bytes: int = 32_000_000
    """Text of the compiled grammars that are kept, together."""
    grammar_symbols: int = 500_000
    """Symbols in one grammar."""
    lexer_work: int = 1_000_000
    """Work on regular expressions while compiling, about 50,000 a millisecond."""
    step_lexer_work: int = 200_000
    """Work on regular expressions for one mask, about 14,000 a millisecond."""
    step_items: int = 50_000
    """Parser items for one mask, about 20,000 a millisecond."""

    @property
    def of_llguidance(self) -> dict[str, Any]:
        """Those that llguidance keeps, by its names for them."""
        return {
            "initial_lexer_fuel": self.lexer_work,
            "step_lexer_fuel": self.step_lexer_work,
            "step_max_items": self.step_items,
            "max_grammar_size": self.grammar_symbols,
        }
