"""How much of the quality is the refresh's: the same snapshots restored with more and fewer tokens run again."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import torch

from agentform.runtime.snapshots.plan import Precision
from agentform.runtime.torch.forward.state_pool import REFRESH_REACH
from agentform.runtime.torch.snapshots.decay_codec import DecayCodec
from benchmarks.common.bootstrap import difference
from studies.snapshots.lab import Lab
from studies.snapshots.quality import TAIL, Cell, contexts, logit_error
from studies.snapshots.ways import ranked

__all__ = ["KEPT", "REACHES", "WINDOWS", "measure"]

KEPT = (0.75, 0.5, 0.38, 0.25)
WINDOWS = (0, 16, 64, 256)
"""Tokens that run again after a restore."""
REACHES = (REFRESH_REACH, math.inf)
"""Heads dropped that are warmed up: those that forget within so many times the window, or all."""
_Key = tuple[float, int, float]


def measure(lab: Lab, cell: Cell, *, seed: int) -> list[dict[str, Any]]:
    """One row per share of kept heads (int8), window and reach."""
    codecs = {share: DecayCodec(ranked(lab, share, Precision.INT8), lab.horizons) for share in KEPT}
    right: dict[_Key, list[list[bool]]] = defaultdict(list)
    errors: dict[_Key, list[tuple[float, float]]] = defaultdict(list)
    for batch in contexts(cell, seed=seed):
        ids, keys = batch.context[0], batch.asked[0].tolist()
        wanted = torch.from_numpy(batch.answers[0])
        lab.read(ids[:-TAIL])
        live = lab.session()
        asked, behind = live.ask(keys), live.extend(ids[-TAIL:], rows=range(TAIL))
        for share, codec in codecs.items():
            for window, reach in itertools.product(WINDOWS, REACHES):
                if not window and reach != REFRESH_REACH:
                    continue
                session = lab.session(codec, refresh_tokens=window, reach=reach)
                answers = session.ask(keys)
                noise = session.extend(ids[-TAIL:], rows=range(TAIL))
                key = share, window, reach
                right[key].append((answers.argmax(dim=-1) == wanted).tolist())
                pair = float(logit_error(answers, asked).mean()), float(logit_error(noise, behind).mean())
                errors[key].append(pair)
    return [
        {
            "kept": share,
            "window": window,
            "reach": reach if math.isfinite(reach) else None,
            "recall": float(np.mean(found)),
            "minus_none": difference(found, right[share, 0, REFRESH_REACH], seed=seed).as_dict(),
            "logit_error": float(np.mean([answer for answer, _ in errors[share, window, reach]])),
            "text_error": float(np.mean([noise for _, noise in errors[share, window, reach]])),
        }
        for (share, window, reach), found in right.items()
    ]
