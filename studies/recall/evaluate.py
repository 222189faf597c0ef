"""How well the trained models recall, and how soon their heads forget, by their weights and in fact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from agentform.runtime.snapshots.horizons import EPSILON
from agentform.runtime.torch.snapshots.model_horizons import horizons_of_model
from studies.recall.forward import forward
from studies.recall.tasks import Batch, draw, needle, noise

__all__ = ["DEPTHS", "GRID", "horizons", "needles", "recall", "right"]

GRID = (
    *((tokens, pairs) for tokens in (1024, 4096) for pairs in (1, 4, 16, 48)),
    *((tokens, pairs) for tokens in (8192, 16_384) for pairs in (16, 48)),
)
"""Tokens and pairs."""
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_ANSWERS = 480
_MOST_CONTEXTS = 32


def recall(model: PreTrainedModel, *, grid: Sequence[tuple[int, int]] = GRID, seed: int) -> list[dict[str, Any]]:
    """Share of right answers by length and number of pairs, on contexts never trained on."""
    rows: list[dict[str, Any]] = []
    for tokens, pairs in grid:
        rng = np.random.default_rng([seed, tokens, pairs])
        num = min(_MOST_CONTEXTS, math.ceil(_ANSWERS / pairs), max(12, 131_072 // tokens))
        found = [right(model, draw(rng, batch=1, tokens=tokens, pairs=pairs, questions=pairs)) for _ in range(num)]
        share = float(np.mean(np.concatenate(found)))
        rows.append({"tokens": tokens, "pairs": pairs, "answers": num * pairs, "recall": share})
    return rows


def needles(model: PreTrainedModel, *, tokens: int, num: int, seed: int) -> list[dict[str, Any]]:
    """One pair at a depth of the context."""
    rows: list[dict[str, Any]] = []
    for depth in DEPTHS:
        rng = np.random.default_rng([seed, round(100 * depth)])
        found = [right(model, needle(rng, batch=1, tokens=tokens, depth=depth)) for _ in range(num)]
        rows.append({"tokens": tokens, "depth": depth, "answers": num, "recall": float(np.mean(found))})
    return rows


def right(model: Any, batch: Batch) -> Any:
    """Which answers are the most likely token, `[batch, questions]`; earlier questions are answered rightly."""
    ids = torch.from_numpy(batch.sequences())
    with torch.inference_mode():
        hidden = forward(model, ids, torch.arange(ids.shape[1]))[:, torch.from_numpy(batch.answer_places())]
        best = model.lm_head(hidden).argmax(dim=-1)
    return best.numpy() == batch.answers


def horizons(model: Any, *, seed: int, tokens: int = 2048) -> list[dict[str, Any]]:
    """Per head, in tokens: the static horizon, and the one that its mean decay over noise amounts to."""
    static = horizons_of_model(model)
    inputs: dict[int, Tensor] = {}
    layers = {index: layer.linear_attn for index, layer in enumerate(model.model.layers) if index in static.layers}
    hooks = [
        layer.in_proj_a.register_forward_hook(lambda _module, _given, out, index=index: inputs.update({index: out}))
        for index, layer in layers.items()
    ]
    ids = torch.from_numpy(noise(np.random.default_rng(seed), batch=1, tokens=tokens))
    with torch.inference_mode():
        forward(model, ids, torch.arange(tokens))
        rows: list[dict[str, Any]] = []
        for index, layer in layers.items():
            decay = (layer.A_log.exp() * F.softplus(inputs[index][0] + layer.dt_bias)).mean(dim=0)
            for head, mean in enumerate(decay.tolist()):
                seen = -math.log(EPSILON) / mean
                rows.append({"layer": index, "head": head, "static": static.layers[index].tokens[head], "seen": seen})
    for hook in hooks:
        hook.remove()
    return rows
