"""Attempts to compile the forms of one grammar, each only so long, and what is to be thought of their outcome."""

from __future__ import annotations

from llguidance import LLMatcher, LLParserLimits

from agentform._util.threads import is_given_up
from agentform.errors import GrammarError
from agentform.grammar.attempt import OutOfTime, TooBusy, attempt
from agentform.grammar.limits import CompileLimits
from agentform.grammar.rehearsal import NotRehearsed, may_be_hard, rehearse
from agentform.grammar.vocabulary import Vocabulary
from agentform.json_schema.keywords import Schema

__all__ = ["TOO_LONG", "CompileTrial"]

TOO_LONG = "it takes too long to compile"


class CompileTrial:
    """What llguidance makes of the sources that are tried for one grammar."""

    def __init__(self, vocabulary: Vocabulary, limits: CompileLimits) -> None:
        self._vocabulary = vocabulary
        self._limits = limits
        self.may_keep = True
        """False where a process could not be started: the next time it may be."""
        self.may_store = True
        """False where the machine, and not the grammar, may have been what took long."""

    def of(self, source: str, schema: Schema = True) -> tuple[LLMatcher | None, str]:
        """What llguidance makes of it, and what it says against it; only so long, and only while somebody waits.

        Raises:
            GrammarError: nobody waits any more.
        """
        try:
            if may_be_hard(schema) and (problem := self._rehearsed(source)):
                return None, problem
            return attempt(lambda: self._try(source), self._limits.compile_s)
        except OutOfTime as error:
            if is_given_up():
                raise GrammarError("compiling the grammar was given up, since nobody waits for it") from None
            self.may_keep = self.may_keep and not isinstance(error, NotRehearsed)
            self.may_store = self.may_store and not isinstance(error, NotRehearsed | TooBusy)
            return None, TOO_LONG

    def _rehearsed(self, source: str) -> str:
        return rehearse(source, limits=self._limits.of_llguidance, cpu_s=self._limits.compile_s)

    def _try(self, source: str) -> tuple[LLMatcher, str]:
        limits = LLParserLimits(**self._limits.of_llguidance, verbose_errors=False)
        matcher = LLMatcher(self._vocabulary.native, source, log_level=0, limits=limits)
        return matcher, matcher.get_error() if matcher.is_error() else ""
