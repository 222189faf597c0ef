"""The embedded engine: any causal language model of transformers, attention-only or hybrid, on CPU or CUDA."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from agentform.errors import InvalidRequest
from agentform.runtime.engine import ModelInfo
from agentform.runtime.models.adapter_file import find_adapter, learnt_scoring
from agentform.runtime.models.tuned_scoring import read_scoring
from agentform.runtime.scheduling.scheduled_engine import ScheduledEngine
from agentform.runtime.torch.core import Serving
from agentform.runtime.torch.cpu.process_tuning import bound_kernel_caches, in_short_thread
from agentform.runtime.torch.cpu.select import Weights
from agentform.runtime.torch.forward.memory_plan import MemoryPlan
from agentform.runtime.torch.loaded_model import LoadedModel, load
from agentform.runtime.torch.options import EngineOptions
from agentform.runtime.torch.sampling import TorchSampler, logprobs

__all__ = ["TorchEngine"]


class TorchEngine(ScheduledEngine):
    """Runs models with transformers and torch, in this process."""

    def __init__(
        self,
        model: Path | str | LoadedModel,
        *,
        name: str | None = None,
        dtype: torch.dtype | str | None = None,
        device: torch.device | str | None = None,
        weights: Weights = "both",
        adapter: Path | str | None = None,
        why: str = "",
        options: EngineOptions | None = None,
        **keywords: Any,
    ) -> None:
        """Load a model folder, or take a loaded model (what says how one is loaded does not count then).

        Args:
            model: The folder or the loaded model.
            name: What `info` shows, by default the folder's.
            dtype: One of torch's, or its name; by default bfloat16 where the device computes in it, else float32.
            device: By default CUDA where there is one, else the CPU.
            weights: Of weights that the folder has in 4 bits too, "both" keeps them for few tokens at a time beside
                wide ones for many; "four_bit" keeps nothing else, for a third of the memory and half the speed of
                prompts; "wide" leaves them out. All is "wide" where the folder has none, on CUDA, on processors without
                AVX2, and where `dtype` asks for float32.
            adapter: The folder of a LoRA adapter for this model, as peft and `agentform tune` write them, or the name
                of one of the latter; the weights are then "wide".
            why: What `info` says of the choice of this engine.
            options: All other settings.
            keywords: Fields of `EngineOptions`, which go before those of `options`.

        Raises:
            InvalidRequest: a setting is out of its range or no device, or the adapter is for another model.
            EngineError: the model cannot be served; CacheBudgetExceeded and WeightsCorrupt among them.
            TypeError: there is no such setting.
        """
        options = replace(options or EngineOptions(), **keywords)
        bound_kernel_caches()
        if not isinstance(model, LoadedModel):
            folder, on, computed_in = Path(model), _device(device), _dtype(dtype)
            called = name or folder.name
            laid = find_adapter(adapter, base=folder) if adapter is not None else None
            if laid and weights == "four_bit":
                raise InvalidRequest('an adapter is laid over wide weights; weights="four_bit" keeps none')
            model = in_short_thread(
                lambda: load(folder, name=called, dtype=computed_in, device=on, weights=weights, adapter=laid)
            )
        elif adapter is not None:
            raise InvalidRequest("an adapter is laid over a model when that is loaded; give the folder")
        self._serving = serving = in_short_thread(lambda: Serving(model, options))
        super().__init__(
            info=_info(model, why),
            tokenizer=model.tokenizer,
            core=serving,
            sampler=lambda sampling: TorchSampler(sampling, serving.device),
            logprobs=logprobs,
            guess_tokens=options.guess_tokens,
            close=serving.close,
        )

    @property
    def memory_plan(self) -> MemoryPlan:
        """How the budget was divided at the start."""
        return self._serving.plan


def _info(model: LoadedModel, why: str) -> ModelInfo:
    config = model.model.config.get_text_config()
    return ModelInfo(
        name=model.name,
        digest=model.digest,
        context_tokens=config.max_position_embeddings,
        vocabulary_size=config.vocab_size,
        scoring=read_scoring(model.digest) or learnt_scoring(model.adapter),
        why=why,
    )


def _device(asked: torch.device | str | None) -> torch.device:
    """The device, which is there.

    Raises:
        InvalidRequest: it is not, or is none.
    """
    try:
        device = torch.device(asked or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise InvalidRequest(f"{asked!r} is no device: {str(error).splitlines()[0]}") from error
    num = torch.cuda.device_count() if device.type == "cuda" else 1
    if (device.index or 0) >= num:
        raise InvalidRequest(f"device {device} is not there; torch sees {num} of the type {device.type}")
    return device


def _dtype(asked: torch.dtype | str | None) -> torch.dtype | None:
    """The dtype, whose name may have been given.

    Raises:
        InvalidRequest: there is none of the name that a model computes in.
    """
    if not isinstance(asked, str):
        return asked
    found = getattr(torch, asked, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise InvalidRequest(f"{asked!r} is no dtype that models compute in; there are bfloat16, float16 and float32")
    return found
