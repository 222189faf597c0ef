"""Training: steps over the decisions, evaluations on what was held out, the best of it kept."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from agentform.runtime.free_cores import FreeCores
from agentform.runtime.labelled import LabelledDecision
from agentform.runtime.torch.cpu.threads import on_free_cores
from agentform.training.checkpoint import Checkpoint
from agentform.training.material import FreeText, Parts
from agentform.training.model import TrainedModel, perplexity
from agentform.training.settings import AdapterSettings, Progress, Quality

__all__ = ["quality", "text_perplexity", "train", "weaken_until_text_keeps"]

_WARM_UP = 0.05
_EVALUATIONS = 2
_MOST_GRADIENT = 1.0
_STRENGTHS = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1)


def train(
    model: TrainedModel,
    parts: Parts,
    texts: Sequence[FreeText],
    settings: AdapterSettings,
    state: Checkpoint,
    *,
    keep: Path,
    cores: FreeCores,
    on_progress: Callable[[Progress], None],
) -> Checkpoint:
    """Train from where `state` stands; the model then has the weights of the best evaluation.

    The state is written to `keep` at every evaluation. Each step computes on the `cores` that are free then.
    """
    take_step = on_free_cores(_step, cores)
    optimiser = torch.optim.AdamW(model.parameters.values(), lr=settings.learning_rate, weight_decay=0.0)
    if state.step:
        model.restore(state.adapter)
        optimiser.load_state_dict(dict(state.optimiser))
    an_epoch = math.ceil(len(parts.trained) / settings.batch)
    num_steps, every = an_epoch * settings.epochs, max(1, an_epoch // _EVALUATIONS)
    known = state.best_quality or quality(model, parts.held_out)
    if state.best_quality is None:
        state.best, state.best_quality = model.state(), known
    while state.step < num_steps and state.num_worse < settings.patience:
        on_progress(Progress(step=state.step, num_steps=num_steps, held_out=known))
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * _share(state.step, num_steps)
        take_step(model, optimiser, _batch(parts.trained, state.step, settings), texts, settings, state.step)
        state.step += 1
        if state.step % every == 0 or state.step == num_steps:
            known = quality(model, parts.held_out)
            _note(state, model, optimiser, known)
            state.write(keep)
    model.restore(state.best)
    on_progress(Progress(step=num_steps, num_steps=num_steps, held_out=state.best_quality))
    return state


def quality(model: TrainedModel, decisions: Sequence[LabelledDecision]) -> Quality:
    """How well decisions are made."""
    found = [model.choice(decision) for decision in decisions]
    return Quality(
        accuracy=sum(is_right for is_right, _ in found) / len(found),
        surprise=sum(surprise for _, surprise in found) / len(found),
    )


def text_perplexity(model: TrainedModel, texts: Sequence[FreeText]) -> float:
    """Of free texts, all tokens alike."""
    total = sum(model.text_surprise(text.prompt_ids, text.text_ids) for text in texts)
    return perplexity(total, sum(len(text.text_ids) for text in texts))


def weaken_until_text_keeps(model: TrainedModel, texts: Sequence[FreeText], most: float) -> tuple[float, float]:
    """Weaken the adapter until the perplexity of `texts` is at most `most`; what was kept, and the perplexity."""
    trained, found = model.state(), math.inf
    for strength in _STRENGTHS:
        model.restore(trained)
        model.weaken(strength)
        found = text_perplexity(model, texts)
        if found <= most:
            return strength, found
    return _STRENGTHS[-1], found


def _step(
    model: TrainedModel,
    optimiser: torch.optim.Optimizer,
    batch: Sequence[LabelledDecision],
    texts: Sequence[FreeText],
    settings: AdapterSettings,
    number: int,
) -> None:
    for decision in batch:
        (model.decision_loss(decision) / len(batch)).backward()
    if texts and settings.text_weight:
        text = texts[number % len(texts)]
        (settings.text_weight * model.text_loss(text.prompt_ids, text.text_ids)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters.values(), _MOST_GRADIENT)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)


def _batch(decisions: Sequence[LabelledDecision], step: int, settings: AdapterSettings) -> list[LabelledDecision]:
    """The decisions of a step: every epoch has an order of its own, which depends on nothing but the seed."""
    an_epoch = math.ceil(len(decisions) / settings.batch)
    epoch, at = divmod(step, an_epoch)
    order = list(range(len(decisions)))
    random.Random(f"{settings.seed}/{epoch}").shuffle(order)
    return [decisions[index] for index in order[at * settings.batch : (at + 1) * settings.batch]]


def _share(step: int, num_steps: int) -> float:
    """Of the highest learning rate."""
    warm = max(1, round(_WARM_UP * num_steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, num_steps - warm)))


def _note(state: Checkpoint, model: TrainedModel, optimiser: torch.optim.Optimizer, found: Quality) -> None:
    state.adapter, state.optimiser = model.state(), optimiser.state_dict()
    assert state.best_quality is not None
    if found.surprise < state.best_quality.surprise:
        state.best, state.best_quality, state.num_worse = state.adapter, found, 0
    else:
        state.num_worse += 1
