"""Restore, extend, snapshot again, many times: does the error grow?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentform.runtime.snapshots.plan import Precision
from agentform.runtime.snapshots.policy import NAMED_POLICIES, SnapshotPolicy
from agentform.runtime.torch.snapshots.codec import SnapshotCodec
from agentform.runtime.torch.snapshots.decay_codec import DecayCodec
from benchmarks.common.bootstrap import drawn, interval
from studies.recall.tasks import draw, noise
from studies.snapshots.lab import Lab
from studies.snapshots.quality import logit_error
from studies.snapshots.ways import ranked

__all__ = ["GAP", "LINKS", "measure"]

LINKS = 50
GAP = 24
"""Tokens of noise between two restores."""
_SHARE = 0.38


def measure(lab: Lab, *, tokens: int, pairs: int, num: int, seed: int, links: int = LINKS) -> dict[str, Any]:
    """By codec: recall and logit error of all pairs after each link, means over `num` contexts."""
    rng = np.random.default_rng([seed, 4])
    chosen = _codecs(lab)
    right = {name: np.zeros((num, links)) for name in ("live", *chosen)}
    errors = {name: np.zeros((num, links)) for name in chosen}
    for index in range(num):
        batch = draw(rng, batch=1, tokens=tokens, pairs=pairs, questions=pairs)
        more = noise(rng, batch=links, tokens=GAP)
        keys, wanted = batch.asked[0].tolist(), torch.from_numpy(batch.answers[0])
        lab.read(batch.context[0])
        live = list(_chain(lab, None, more, keys))
        right["live"][index] = [_recall(logits, wanted) for logits in live]
        for name, codec in chosen.items():
            for link, logits in enumerate(_chain(lab, codec, more, keys)):
                right[name][index, link] = _recall(logits, wanted)
                errors[name][index, link] = float(logit_error(logits, live[link]).mean())
    return {
        "contexts": num,
        "tokens": tokens,
        "pairs": pairs,
        "gap": GAP,
        "recall": {name: each.mean(axis=0).round(4).tolist() for name, each in right.items()},
        "logit_error": {name: each.mean(axis=0).round(5).tolist() for name, each in errors.items()},
        "growth": {name: _growth(each, seed) for name, each in errors.items()},
    }


def _codecs(lab: Lab) -> dict[str, SnapshotCodec]:
    states = lab.exact_bytes - lab.conv_bytes
    eighth = SnapshotPolicy(budget_bytes=lab.conv_bytes + states // 8).plan(lab.horizons, lab.geometry)
    plans = {
        "int8": ranked(lab, 1.0, Precision.INT8),
        "int4": ranked(lab, 1.0, Precision.INT4),
        "balanced": NAMED_POLICIES["balanced"].plan(lab.horizons, lab.geometry),
        "drop": ranked(lab, _SHARE, Precision.EXACT),
        "both": ranked(lab, _SHARE, Precision.INT8),
        "ours, an eighth": eighth,
    }
    return {name: DecayCodec(plan, lab.horizons) for name, plan in plans.items()}


def _chain(lab: Lab, codec: SnapshotCodec | None, more: Any, keys: Sequence[int]) -> Iterator[Tensor]:
    """Logits of the answers after each link; the first restore is of the context itself."""
    session = lab.session(codec)
    for link, ids in enumerate(more):
        if link and codec is not None:
            session.restore()
        session.extend(ids)
        yield session.ask(keys)


def _recall(logits: Tensor, wanted: Tensor) -> float:
    return float((logits.argmax(dim=-1) == wanted).float().mean())


def _growth(errors: Any, seed: int) -> dict[str, float]:
    """Mean error of the last fifth of the links over that of the second fifth, with its 95% bootstrap over contexts."""
    fifth = errors.shape[1] // 5
    early, late = errors[:, fifth : 2 * fifth].mean(axis=1), errors[:, -fifth:].mean(axis=1)
    which = drawn(len(early), seed=seed, draws=2000)
    low, high = interval(late[which].mean(axis=1) / early[which].mean(axis=1))
    return {"ratio": float(late.mean() / early.mean()), "low": low, "high": high}
