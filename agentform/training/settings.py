"""How an adapter is trained, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentform.errors import InvalidRequest

__all__ = ["AdapterSettings", "Progress", "Quality", "TrainedAdapter"]

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """What can be set of the training.

    Raises:
        InvalidRequest: a number is out of its range.
    """

    rank: int = 8
    """Of the two matrices that stand for the change of a weight."""
    alpha: float = 16.0
    """What their product is multiplied with, times the rank."""
    learning_rate: float = 5e-4
    """At its highest, after the first twentieth; it then falls to nothing as a cosine."""
    epochs: int = 3
    """Times that every example is seen, at most."""
    batch: int = 8
    """Decisions of one step."""
    held_out: float = 0.2
    """Share of the examples that is not trained on: training stops when these get no better."""
    patience: int = 3
    """Evaluations, of which there are two an epoch, without a better one before it stops."""
    text_weight: float = 4.0
    """Weight of what free text may lose, beside the decisions: its divergence from the model's own, in nats a token."""
    max_text_growth: float = 0.02
    """Most by which the perplexity of held-out free text may grow; the adapter is weakened until it keeps to it."""
    seed: int = 0
    targets: tuple[str, ...] = TARGETS
    """Names of the layers that are changed."""

    def __post_init__(self) -> None:
        ranges = {
            "rank": self.rank >= 1,
            "alpha": self.alpha > 0,
            "learning_rate": 0 < self.learning_rate < 1,
            "epochs": self.epochs >= 1,
            "batch": self.batch >= 1,
            "held_out": 0 < self.held_out < 1,
            "patience": self.patience >= 1,
            "text_weight": self.text_weight >= 0,
            "max_text_growth": self.max_text_growth > 0,
        }
        if wrong := [name for name, is_right in ranges.items() if not is_right]:
            raise InvalidRequest(f"{wrong[0]} is {getattr(self, wrong[0])}, out of its range")


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How well held-out decisions are made."""

    accuracy: float
    """Share of the decisions that are right at every step, where only options are allowed."""
    surprise: float
    """Mean negative log probability of the right option among the options, nats."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a training is."""

    step: int
    num_steps: int
    held_out: Quality
    """At the last evaluation."""


@dataclass(frozen=True, kw_only=True)
class TrainedAdapter:
    """An adapter in its folder, and what was measured on what it was not trained on."""

    folder: Path
    num_trained: int
    """Decisions that were trained on."""
    num_held_out: int
    before: Quality
    after: Quality
    perplexity_before: float
    """Of held-out free text of the model's own."""
    perplexity_after: float
    strength: float
    """Share of the trained change that was kept, so that free text keeps to its limit; 0 where nothing of it helps."""
    exported: bool
    """Whether there is a file for llama.cpp."""
    why_not: str = ""
    """Why not, if not."""
