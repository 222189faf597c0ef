"""From a model's name to an engine; imports torch only when an engine is made."""

from __future__ import annotations

from typing import Any

from agentform.errors import MissingDependency
from agentform.runtime.engine import Engine
from agentform.runtime.torch.dependencies import torch_extra

__all__ = ["load_engine"]


def load_engine(name: str, **options: Any) -> Engine:
    """An engine for a catalogue name such as "smollm2-135m", a model folder or a Hugging Face hub id.

    `options` are TorchEngine's keyword arguments, such as `cache_dir`, or `snapshots="balanced"` for hybrid models.
    Raises: ModelNotFound, WeightsUnavailable, WeightsCorrupt, MissingDependency, CacheBudgetExceeded, EngineError.
    """
    if name.startswith("sglang:"):
        raise MissingDependency(f"{name!r}: the SGLang engine is not available in this version of agentform")
    with torch_extra():
        from agentform.runtime.torch.engine import TorchEngine
        from agentform.runtime.torch.weights import resolve_model

        return TorchEngine(resolve_model(name), name=name, **options)
