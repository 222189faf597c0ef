"""The model that is trained: transformers' own, with peft's LoRA layers in it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agentform._util.install import install_line
from agentform.errors import MissingDependency
from agentform.runtime.labelled import LabelledDecision
from agentform.runtime.models.checked import readable
from agentform.runtime.torch.forward.transformers_adapter import no_progress_bar
from agentform.training.settings import AdapterSettings

__all__ = ["TrainedModel", "perplexity"]


class TrainedModel:
    """Computes losses of decisions and of free text; only the adapter's weights learn."""

    def __init__(self, base: Path, settings: AdapterSettings, device: torch.device) -> None:
        """Load a model folder, or a GGUF file, whose weights are taken apart, in float32.

        Raises:
            MissingDependency: peft is not installed.
            WeightsCorrupt: the model cannot be loaded.
        """
        peft = _peft()
        torch.manual_seed(settings.seed)
        with readable(base):
            self._base = _load(base).to(device)
        config = peft.LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            target_modules=list(settings.targets),
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft asks transformers for what that calls by another name now
            self.wrapped: Any = peft.get_peft_model(self._base, config)
        self.wrapped.eval()  # no dropout: a run is the same whenever it is made
        self.device = device
        self.config: Any = self._base.config

    @property
    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """What learns, by name."""
        return {name: each for name, each in self.wrapped.named_parameters() if each.requires_grad}

    def decision_loss(self, decision: LabelledDecision) -> Tensor:
        """Negative log probability of the right tokens where options part, among all tokens, nats."""
        rows, steps = self._at_steps(decision), decision.steps
        right = torch.tensor([step.candidates[0] for step in steps], device=self.device)
        return -rows.log_softmax(-1).gather(1, right.unsqueeze(1)).sum()

    def choice(self, decision: LabelledDecision) -> tuple[bool, float]:
        """Whether the right one of the options is the most probable, and its negative log probability, nats."""
        with torch.no_grad():
            rows = self._at_steps(decision)
        surprise, is_right = 0.0, True
        for row, step in zip(rows, decision.steps, strict=True):
            allowed = row[list(step.candidates)].log_softmax(-1)
            surprise -= float(allowed[0])
            is_right = is_right and int(allowed.argmax()) == 0
        return is_right, surprise

    def text_loss(self, prompt_ids: Sequence[int], text_ids: Sequence[int]) -> Tensor:
        """How far the adapted model's next tokens are from the model's own over a text, mean divergence in nats."""
        own = self.wrapped.disable_adapter()
        with own, torch.no_grad():
            before = self._of_text(prompt_ids, text_ids)
        after = self._of_text(prompt_ids, text_ids)
        return (before.exp() * (before - after)).sum(-1).mean()

    def text_surprise(self, prompt_ids: Sequence[int], text_ids: Sequence[int]) -> float:
        """Sum of the negative log probabilities of a text's tokens, nats."""
        with torch.no_grad():
            rows = self._of_text(prompt_ids, text_ids)
        return -float(rows.gather(1, torch.tensor(text_ids, device=self.device).unsqueeze(1)).sum())

    @contextmanager
    def without_adapter(self) -> Generator[None]:
        """Inside, the model is as it was."""
        with self.wrapped.disable_adapter():
            yield

    def state(self) -> dict[str, Tensor]:
        """The adapter's weights, copied."""
        return {name: each.detach().clone() for name, each in self.parameters.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put such weights back."""
        with torch.no_grad():
            for name, each in self.parameters.items():
                each.copy_(state[name])

    def weaken(self, strength: float) -> None:
        """Keep so much of the change: of a product of two matrices, it is taken from one."""
        with torch.no_grad():
            for name, each in self.parameters.items():
                if "lora_B" in name:
                    each.mul_(strength)

    def save(self, folder: Path) -> None:
        """Write adapter_config.json and adapter_model.safetensors."""
        self.wrapped.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)  # a form for a hub, with nothing filled in

    def _at_steps(self, decision: LabelledDecision) -> Tensor:
        """Logits where options part, `[steps, vocabulary]`, float32."""
        steps, option = decision.steps, decision.options[decision.right]
        ids = decision.prompt_ids + option[: steps[-1].at]
        first = len(decision.prompt_ids) - 1
        return self._logits(ids, [first + step.at for step in steps])

    def _of_text(self, prompt_ids: Sequence[int], text_ids: Sequence[int]) -> Tensor:
        first = len(prompt_ids) - 1
        ids = (*prompt_ids, *text_ids[:-1])
        return self._logits(ids, [first + at for at in range(len(text_ids))]).log_softmax(-1)

    def _logits(self, ids: Sequence[int], rows: Sequence[int]) -> Tensor:
        kept = torch.tensor(rows, device=self.device)
        output = self.wrapped(input_ids=torch.tensor([ids], device=self.device), use_cache=False, logits_to_keep=kept)
        return output.logits[0].float()


def perplexity(surprise: float, num_tokens: int) -> float:
    """Of texts whose tokens have this sum of negative log probabilities."""
    return math.exp(surprise / max(num_tokens, 1))


def _load(base: Path) -> Any:
    from transformers import AutoModelForCausalLM

    where, more = (base, {}) if base.is_dir() else (base.parent, {"gguf_file": base.name})
    with no_progress_bar():
        model: Any = AutoModelForCausalLM.from_pretrained(
            where, dtype=torch.float32, attn_implementation="sdpa", **more
        )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


def _peft() -> Any:
    try:
        import peft
    except ModuleNotFoundError as error:
        raise MissingDependency(f"{error.name} is needed to train an adapter: {install_line('tune')}") from error
    return peft
