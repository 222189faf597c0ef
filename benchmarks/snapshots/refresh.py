"""How much of the quality is the refresh's: the same snapshots restored with more and fewer tokens run again."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch

from agentform.runtime.cache.policy import Tier
from agentform.runtime.torch.decay_codec import DecayCodec
from benchmarks.forms.statistics import difference
from benchmarks.snapshots.lab import Lab
from benchmarks.snapshots.quality import TAIL, Cell, contexts, logit_error
from benchmarks.snapshots.ways import ranked

__all__ = ["KEPT", "WINDOWS", "measure"]

KEPT = (0.75, 0.5, 0.38, 0.25)
WINDOWS = (0, 16, 64, 256)
"""Tokens that run again after a restore."""


def measure(lab: Lab, cell: Cell, *, seed: int) -> list[dict[str, Any]]:
    """One row per share of kept heads (int8) and window."""
    codecs = {share: DecayCodec(ranked(lab, share, Tier.INT8), lab.horizons) for share in KEPT}
    right: dict[tuple[float, int], list[list[bool]]] = defaultdict(list)
    errors: dict[tuple[float, int], list[tuple[float, float]]] = defaultdict(list)
    for batch in contexts(cell, seed=seed):
        ids, keys = batch.context[0], batch.asked[0].tolist()
        wanted = torch.from_numpy(batch.answers[0])
        lab.read(ids[:-TAIL])
        live = lab.session()
        asked, behind = live.ask(keys), live.extend(ids[-TAIL:], rows=range(TAIL))
        for share, codec in codecs.items():
            for window in WINDOWS:
                session = lab.session(codec, refresh_tokens=window)
                answers = session.ask(keys)
                noise = session.extend(ids[-TAIL:], rows=range(TAIL))
                right[share, window].append((answers.argmax(dim=-1) == wanted).tolist())
                pair = float(logit_error(answers, asked).mean()), float(logit_error(noise, behind).mean())
                errors[share, window].append(pair)
    return [
        {
            "kept": share,
            "window": window,
            "recall": float(np.mean(found)),
            "minus_none": difference(found, right[share, 0], seed=seed).as_dict(),
            "logit_error": float(np.mean([answer for answer, _ in errors[share, window]])),
            "text_error": float(np.mean([noise for _, noise in errors[share, window]])),
        }
        for (share, window), found in right.items()
    ]
