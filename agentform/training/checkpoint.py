"""Where a training stands, on disk, so that one that was interrupted goes on from there."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agentform._util.files import replacing
from agentform.runtime.labelled import LabelledDecision
from agentform.training.settings import AdapterSettings, Quality

__all__ = ["Checkpoint", "fingerprint"]


@dataclass(kw_only=True)
class Checkpoint:
    """All that the rest of a training depends on."""

    fingerprint: str
    step: int = 0
    adapter: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    optimiser: Mapping[str, Any] = field(default_factory=dict[str, Any])
    best: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """The adapter's weights at the best evaluation."""
    best_quality: Quality | None = None
    num_worse: int = 0
    """Evaluations since then."""

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        quality = None if self.best_quality is None else asdict(self.best_quality)
        with replacing(path) as beside:
            torch.save({**self.__dict__, "best_quality": quality}, beside)

    @classmethod
    def read(cls, path: Path, fingerprint: str) -> Checkpoint:
        """What was written for the same data and settings; else the beginning."""
        begun = cls(fingerprint=fingerprint)
        if not path.is_file():
            return begun
        try:
            found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError):
            return begun
        if found.get("fingerprint") != fingerprint:
            return begun
        quality = found.pop("best_quality")
        return cls(**found, best_quality=None if quality is None else Quality(**quality))


def fingerprint(base: str, decisions: Sequence[LabelledDecision], settings: AdapterSettings) -> str:
    """Identifies a training: another model, other data or settings are another one."""
    facts = [base, asdict(settings), [(d.prompt_ids, d.options, d.right, d.example) for d in decisions]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
