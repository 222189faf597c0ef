"""A model asked as `POST /v1/systemone` asks it, each distinct question about a text once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentform import PriorStore, Scoring
from agentform._util.sync import run_blocking
from agentform.forms.asked import Asked, Decision
from agentform.forms.isolated import decide_isolated
from agentform.forms.system_one import answer_body, asked_of
from agentform.runtime.engine import Engine
from agentform.schema.json_text import dumps, text_or_json

__all__ = ["Asking"]


@dataclass(kw_only=True)
class Asking:
    """One engine with one way of scoring; label priors are its own, so that ways are timed alike."""

    engine: Engine
    scoring: Scoring
    again: bool = False
    """Whether a question that was answered is asked again where it stands in another batch."""
    told: Callable[[int], None] = lambda _: None
    """Called with the number of decisions so far."""
    decisions: int = 0
    seconds: float = 0.0
    tokens: int = 0
    """That went through the model."""
    _store: PriorStore = field(default_factory=PriorStore)
    _known: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def answers(self, state: Any, questions: Mapping[str, Any]) -> dict[str, Any]:
        """The bodies of the answers; jevbench calls this."""
        text = text_or_json(state)
        keys = {name: dumps([text, list(body.items())]) for name, body in questions.items()}
        new = {name: body for name, body in questions.items() if self.again or keys[name] not in self._known}
        asked = {name: asked_of(name, body) for name, body in new.items()}
        for name, decision in (self.decide(text, asked) if asked else {}).items():
            self._known[keys[name]] = answer_body(asked[name], new[name].get("criteria") or (), decision)
        return {name: self._known[keys[name]] for name in questions}

    def decide(self, text: str, asked: Mapping[str, Asked]) -> Mapping[str, Decision]:
        """A decision for each question."""
        started = time.perf_counter()
        ask = partial(decide_isolated, self.engine, text, asked, scoring=self.scoring, priors=self._store)
        decided = run_blocking(ask)
        self.seconds += time.perf_counter() - started
        self.decisions += len(asked)
        self.tokens += decided.usage.computed_tokens or 0
        self.told(self.decisions)
        return decided
