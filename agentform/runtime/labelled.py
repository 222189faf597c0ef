"""A decision whose right outcome is known, as token ids: what an adapter is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["DecisionStep", "LabelledDecision"]


@dataclass(frozen=True)
class DecisionStep:
    """A place on the right option's way where options part."""

    at: int
    """Number of the option's tokens before it."""
    candidates: tuple[int, ...]
    """Token ids that may stand there, the right one first."""


@dataclass(frozen=True, kw_only=True)
class LabelledDecision:
    """A prompt, the options as they would be written after it, and which of them is right."""

    prompt_ids: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]
    right: int
    example: int = 0
    """Number of the labelled example that it is of; those of one example are never split."""

    @property
    def steps(self) -> tuple[DecisionStep, ...]:
        """Where the model has to choose, if it chooses right; none where all options are alike."""
        own = self.options[self.right]
        found: list[DecisionStep] = []
        for at, token in enumerate(own):
            others = _following(self.options, own[:at]) - {token}
            if others:
                found.append(DecisionStep(at, (token, *sorted(others))))
        return tuple(found)


def _following(options: Sequence[tuple[int, ...]], start: tuple[int, ...]) -> set[int]:
    """Token ids that come after `start` in an option."""
    return {option[len(start)] for option in options if len(option) > len(start) and option[: len(start)] == start}
