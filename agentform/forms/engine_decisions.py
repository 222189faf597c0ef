"""An engine as a decision model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentform.forms.asked import Asked, Decision
from agentform.forms.isolated import decide_isolated
from agentform.runtime.engine import Engine

__all__ = ["EngineDecisions"]


@dataclass(frozen=True)
class EngineDecisions:
    """An engine of this process as a decision model: a small one that scores beside a large one that writes."""

    engine: Engine

    @property
    def name(self) -> str:
        """The name of the engine's model."""
        return self.engine.info.name

    async def decide(self, state: str, questions: Mapping[str, Asked]) -> Mapping[str, Decision]:
        """A decision for every question, as `POST /v1/systemone` makes it.

        Raises:
            EngineError: the engine cannot serve the request.
        """
        return await decide_isolated(self.engine, state, questions)
