"""Trains one of the small models: short contexts first, then longer ones with more pairs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from studies.recall.forward import forward
from studies.recall.models import make
from studies.recall.tasks import NOISE, Batch, draw

__all__ = ["STAGES", "Stage", "train"]

_LOCAL_WEIGHT = 0.5
"""Of predicting noise, beside answering: it gives heads that forget soon something to do."""
_MOST_STRIDE = 4
"""Positions of long contexts are stretched up to so far, so that attention sees distances beyond their length."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Some steps on contexts of one length."""

    steps: int
    batch: int
    tokens: int
    most_pairs: int
    rate: float
    """Learning rate."""


STAGES = (
    Stage(steps=150, batch=16, tokens=40, most_pairs=6, rate=3e-3),
    Stage(steps=260, batch=12, tokens=128, most_pairs=16, rate=3e-3),
    Stage(steps=260, batch=4, tokens=512, most_pairs=48, rate=2e-3),
    Stage(steps=160, batch=1, tokens=2048, most_pairs=48, rate=1e-3),
    Stage(steps=100, batch=1, tokens=4096, most_pairs=48, rate=5e-4),
)


def train(name: str, *, seed: int, stages: tuple[Stage, ...] = STAGES, tell: Callable[[str], None] = print) -> Any:
    """The trained model and the curve: one entry per 20 steps."""
    model = make(name, seed=seed).train()
    optimizer = _optimizer(model)
    rng = np.random.default_rng(seed)
    curve: list[dict[str, float]] = []
    started, cpu, seen = time.monotonic(), time.process_time(), 0
    for step, (stage, rate) in enumerate(_steps(stages), start=1):
        for group in optimizer.param_groups:
            group["lr"] = group["scale"] * rate
        batch = _draw(rng, stage)
        answer, right, local = _losses(model, batch, rng)
        optimizer.zero_grad()
        (answer + _LOCAL_WEIGHT * local).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen += batch.sequences().size
        if step % 20 == 0:
            times = {"s": time.monotonic() - started, "cpu_s": time.process_time() - cpu}
            facts = {"answer_loss": answer.item(), "recall": right, "noise_loss": local.item()}
            curve.append({"step": step, "tokens": seen, "context": stage.tokens, **facts, **times})
            tell(
                "  ".join(f"{key} {value:.3f}" if value % 1 else f"{key} {value:g}" for key, value in curve[-1].items())
            )
    return model.eval(), curve


def recipe(stages: tuple[Stage, ...] = STAGES) -> list[dict[str, Any]]:
    """The stages as plain data."""
    return [asdict(stage) for stage in stages]


def _steps(stages: tuple[Stage, ...]) -> Iterator[tuple[Stage, float]]:
    """Stage and learning rate of every step: a warm-up at the start, and in the last stage down to a tenth."""
    done = 0
    for stage in stages:
        for at in range(stage.steps):
            done += 1
            fade = 0.1 + 0.45 * (1 + math.cos(math.pi * at / stage.steps)) if stage is stages[-1] else 1.0
            yield stage, stage.rate * min(1.0, done / 50) * fade


def _draw(rng: np.random.Generator, stage: Stage) -> Batch:
    pairs = int(rng.integers(1, stage.most_pairs + 1))
    return draw(rng, batch=stage.batch, tokens=stage.tokens, pairs=pairs, questions=pairs)


def _losses(model: Any, batch: Batch, rng: np.random.Generator) -> tuple[Tensor, float, Tensor]:
    """Loss of answers, share of them that are right, loss of noise behind noise."""
    ids = torch.from_numpy(batch.sequences())
    stride = int(rng.integers(1, _MOST_STRIDE + 1)) if ids.shape[1] > 256 else 1
    with _fast_products():
        hidden = forward(model, ids, torch.arange(ids.shape[1]) * stride)
        places = torch.from_numpy(batch.answer_places())
        answers = model.lm_head(hidden[:, places])
        num = batch.context.shape[1]
        noise = model.lm_head(hidden[:, : num - 1])
    wanted = torch.from_numpy(batch.answers)
    following = ids[:, 1:num]
    is_noise = (following >= NOISE.start) & (ids[:, : num - 1] >= NOISE.start)
    answer = F.cross_entropy(answers.float().flatten(0, 1), wanted.flatten())
    right = (answers.argmax(dim=-1) == wanted).float().mean().item()
    return answer, right, F.cross_entropy(noise[is_noise].float(), following[is_noise])


def _fast_products() -> Any:
    """Matrix products in bfloat16 where the CPU has instructions for it."""
    fast = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    return torch.autocast("cpu", dtype=torch.bfloat16) if fast else nullcontext()


def _optimizer(model: PreTrainedModel) -> torch.optim.Optimizer:
    """AdamW; decay rates move a tenth as fast, so that their spread lasts, and what steers them is kept small."""
    rates, gates, vectors, matrices = [], [], [], []
    for path, parameter in model.named_parameters():
        if path.endswith(("A_log", "dt_bias")):
            rates.append(parameter)
        elif "in_proj_a" in path:
            gates.append(parameter)
        else:
            (vectors if parameter.dim() < 2 or "conv1d" in path else matrices).append(parameter)
    groups = [
        {"params": rates, "weight_decay": 0.0, "scale": 0.1},
        {"params": gates, "weight_decay": 0.5, "scale": 1.0},
        {"params": vectors, "weight_decay": 0.0, "scale": 1.0},
        {"params": matrices, "weight_decay": 0.05, "scale": 1.0},
    ]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98))
