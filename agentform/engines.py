"""Engines by their classes, what can be set of them, and the protocol for one of your own.

`agentform.load_engine` chooses by a model's name. The classes here are loaded when they are asked for: importing this
module needs no extra and imports no torch.
"""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from agentform._util.paths import models_folder
from agentform.decoding.tool_format import ToolCallFormat, call_text, learn_format
from agentform.runtime.cache.statistics import CacheStatistics, ConversationStatistics, TierStatistics
from agentform.runtime.engine import (
    Branch,
    Chunk,
    Engine,
    FinishReason,
    GenerateRequest,
    ModelInfo,
    Sampling,
    ScoreRequest,
    ScoreResult,
    Tokenizer,
)
from agentform.runtime.load import server_class
from agentform.runtime.models.extras import torch_extra

if TYPE_CHECKING:
    from agentform.runtime.http.retry_policy import RetryPolicy
    from agentform.runtime.llama_cpp.engine import LlamaCppEngine
    from agentform.runtime.llama_cpp.options import LlamaOptions
    from agentform.runtime.llama_server.engine import LlamaServer
    from agentform.runtime.openai_server.engine import OpenAIServer
    from agentform.runtime.sglang.client.server import SGLangServer
    from agentform.runtime.sglang.embedded.engine import SGLangEngine
    from agentform.runtime.sglang.plugin.settings import SnapshotSettings
    from agentform.runtime.sglang.plugin.statistics import SnapshotPoolStatistics, read_snapshot_statistics
    from agentform.runtime.snapshots.plan import PrecisionPlan
    from agentform.runtime.torch.engine import TorchEngine
    from agentform.runtime.torch.options import EngineOptions
    from agentform.runtime.torch.snapshots.codec import SnapshotCodec

__all__ = [
    "Branch",
    "CacheStatistics",
    "Chunk",
    "ConversationStatistics",
    "Engine",
    "EngineOptions",
    "FinishReason",
    "GenerateRequest",
    "LlamaCppEngine",
    "LlamaOptions",
    "LlamaServer",
    "ModelInfo",
    "OpenAIServer",
    "PrecisionPlan",
    "RetryPolicy",
    "SGLangEngine",
    "SGLangServer",
    "Sampling",
    "ScoreRequest",
    "ScoreResult",
    "SnapshotCodec",
    "SnapshotPoolStatistics",
    "SnapshotSettings",
    "TierStatistics",
    "Tokenizer",
    "ToolCallFormat",
    "TorchEngine",
    "call_text",
    "learn_format",
    "models_folder",
    "read_snapshot_statistics",
]

_RUNTIME = "agentform.runtime."
_SERVERS = {"LlamaServer": "llama_server", "OpenAIServer": "openai", "SGLangServer": "sglang"}
_ON_TORCH = ("torch.", "sglang.embedded.")
_WHERE = {
    "EngineOptions": "torch.options",
    "LlamaCppEngine": "llama_cpp.engine",
    "LlamaOptions": "llama_cpp.options",
    "RetryPolicy": "http.retry_policy",
    "SGLangEngine": "sglang.embedded.engine",
    "SnapshotCodec": "torch.snapshots.codec",
    "SnapshotPoolStatistics": "sglang.plugin.statistics",
    "SnapshotSettings": "sglang.plugin.settings",
    "PrecisionPlan": "snapshots.plan",
    "TorchEngine": "torch.engine",
    "read_snapshot_statistics": "sglang.plugin.statistics",
}


def __getattr__(name: str) -> Any:
    """The engine classes, imported when they are asked for.

    Raises:
        MissingDependency: the engine's extra is not installed.
    """
    if name in _SERVERS:
        return server_class(_SERVERS[name])[0]
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    needs = torch_extra() if _WHERE[name].startswith(_ON_TORCH) else nullcontext()
    with needs:
        return getattr(importlib.import_module(_RUNTIME + _WHERE[name]), name)
