"""What an adapter is trained on, and what it is held against."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from agentform.errors import InvalidInput
from agentform.runtime.labelled import LabelledDecision
from agentform.training.settings import AdapterSettings

__all__ = ["FreeText", "Parts", "split"]


@dataclass(frozen=True, kw_only=True)
class FreeText:
    """A text that the model wrote by itself."""

    prompt_ids: tuple[int, ...]
    text_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Decisions to train on, and those that are held out; no example is in both."""

    trained: tuple[LabelledDecision, ...]
    held_out: tuple[LabelledDecision, ...]


def split(decisions: Sequence[LabelledDecision], settings: AdapterSettings) -> Parts:
    """Hold a share of the examples out, the same ones every time.

    Raises:
        InvalidInput: there are too few.
    """
    examples = sorted({decision.example for decision in decisions})
    random.Random(settings.seed).shuffle(examples)
    num_out = max(1, round(settings.held_out * len(examples)))
    if len(examples) < 4 or num_out >= len(examples):
        raise InvalidInput(f"an adapter needs at least four labelled examples with decisions; got {len(examples)}")
    out = set(examples[:num_out])
    return Parts(
        trained=tuple(d for d in decisions if d.example not in out),
        held_out=tuple(d for d in decisions if d.example in out),
    )
