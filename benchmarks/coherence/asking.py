"""A model asked as `POST /v1/systemone` asks it, each distinct question about a text once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agentform import PriorStore, Scoring
from agentform._util.sync import run_blocking
from agentform.forms.asked import Asked, Decision
from agentform.forms.isolated import decide_isolated
from agentform.forms.system_one import answer_body, asked_of
from agentform.runtime.engine import Engine
from agentform.schema.json_text import dumps, text_or_json

__all__ = ["Asking", "at_temperature"]


@dataclass(kw_only=True)
class Asking:
    """One engine with one way of scoring; label priors are its own, so that ways are timed alike."""

    engine: Engine
    scoring: Scoring
    again: bool = False
    """Whether a question that was answered is asked again where it stands in another batch."""
    told: Callable[[int], None] = lambda _: None
    """Called with the number of decisions so far."""
    temperature: float = 1.0
    """Of the answers to jevbench, beside that of `scoring`; what is already known is not asked again for another."""
    decisions: int = 0
    seconds: float = 0.0
    tokens: int = 0
    """That went through the model."""
    _store: PriorStore = field(default_factory=PriorStore)
    _known: dict[str, Decision] = field(default_factory=dict[str, Decision])

    def answers(self, state: Any, questions: Mapping[str, Any]) -> dict[str, Any]:
        """The bodies of the answers; jevbench calls this."""
        text = text_or_json(state)
        keys = {name: dumps([text, list(body.items()), _criteria(body)]) for name, body in questions.items()}
        asked = {name: asked_of(name, body) for name, body in questions.items()}
        new = {name: question for name, question in asked.items() if self.again or keys[name] not in self._known}
        if new:
            self._known.update({keys[name]: decision for name, decision in self.decide(text, new).items()})
        return {
            name: answer_body(question, _criteria(questions[name]), self._heated(keys[name]))
            for name, question in asked.items()
        }

    def replayed(self, temperature: float) -> Asking:
        """The same answers, at another temperature and without the model."""
        return replace(self, temperature=temperature, again=False, told=lambda _: None)

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

    def _heated(self, key: str) -> Decision:
        return at_temperature(self._known[key], self.temperature)


def _criteria(body: Mapping[str, Any]) -> list[Any]:
    """In their order, which a key of JSON would lose."""
    criteria = body.get("criteria") or ()
    return [list(item) for item in criteria.items()] if isinstance(criteria, Mapping) else list(criteria)


def at_temperature(decision: Decision, temperature: float) -> Decision:
    """The decision as it would be with `Scoring.temperature` so many times as high: 1 is as it is."""
    heated = [p ** (1 / temperature) for _, p in decision.probabilities]
    shares = [weight / sum(heated) for weight in heated]
    options = tuple((option, share) for (option, _), share in zip(decision.probabilities, shares, strict=True))
    return replace(decision, probabilities=options, probability=max(shares))
