"""From a model's name to an engine; imports torch only when an engine is made."""

from __future__ import annotations

from typing import Any

from agentform.runtime.engine import Engine
from agentform.runtime.torch.dependencies import torch_extra

__all__ = ["load_engine"]


_SGLANG = "sglang:"


def load_engine(name: str, **options: Any) -> Engine:
    """An engine for a catalogue name such as "smollm2-135m", a model folder or a Hugging Face hub id.

    `options` are TorchEngine's keyword arguments, such as `cache_dir`, or `snapshots="balanced"` for hybrid models.
    "sglang:" before the name loads it into SGLang; `options` are then SGLang's server arguments.
    Raises: ModelNotFound, WeightsUnavailable, WeightsCorrupt, MissingDependency, CacheBudgetExceeded, EngineError.
    """
    if name.startswith(_SGLANG):
        return _sglang_engine(name.removeprefix(_SGLANG), options)
    with torch_extra():
        from agentform.runtime.torch.engine import TorchEngine
        from agentform.runtime.torch.weights import resolve_model

        return TorchEngine(resolve_model(name), name=name, **options)


def _sglang_engine(name: str, options: dict[str, Any]) -> Engine:
    from agentform.runtime.sglang.versions import check_version

    check_version()  # before a model is fetched in vain
    with torch_extra():
        from agentform.runtime.sglang.engine import SGLangEngine
        from agentform.runtime.torch.weights import resolve_model

        return SGLangEngine(resolve_model(name), name=name, **options)
