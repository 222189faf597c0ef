"""The engine for GGUF files, on llama.cpp: any architecture and quantisation of those, on any processor it runs on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from agentform.errors import EngineError
from agentform.runtime.engine import ModelInfo
from agentform.runtime.llama_cpp.core import LlamaCore
from agentform.runtime.llama_cpp.first_load import try_first
from agentform.runtime.llama_cpp.memory_plan import LlamaMemoryPlan
from agentform.runtime.llama_cpp.model import LlamaModel
from agentform.runtime.llama_cpp.options import LlamaOptions
from agentform.runtime.llama_cpp.sampling import NumpySampler, logprobs
from agentform.runtime.llama_cpp.tokenizer import LlamaTokenizer
from agentform.runtime.models.adapter_file import find_adapter, learnt_scoring
from agentform.runtime.models.tuned_scoring import read_scoring
from agentform.runtime.scheduling.scheduled_engine import ScheduledEngine

__all__ = ["LlamaCppEngine"]


class LlamaCppEngine(ScheduledEngine):
    """Runs a GGUF file with llama.cpp, in this process."""

    def __init__(
        self,
        model: Path | str,
        *,
        name: str | None = None,
        why: str = "",
        gpu_layers: int | None = None,
        adapter: Path | str | None = None,
        options: LlamaOptions | None = None,
        **keywords: Any,
    ) -> None:
        """Load a GGUF file; of a split one the first.

        Args:
            model: The file.
            name: What `info` shows, by default the file's.
            why: What `info` says of the choice of this engine.
            gpu_layers: How many layers run on a GPU, by default all where the build of llama.cpp has one.
            adapter: The folder of an adapter for this model that `agentform tune` made, or its name.
            options: All other settings.
            keywords: Fields of `LlamaOptions`, which go before those of `options`.

        Raises:
            InvalidRequest: a setting is out of its range, or the adapter is for another model.
            ModelNotFound: there is no such adapter.
            WeightsCorrupt: no GGUF file that llama.cpp can load, or one that it ends the process over.
            MissingDependency: there is no llama.cpp.
            CacheBudgetExceeded: the budget is too small, or more than the machine has.
            EngineError: no model that continues text.
            TypeError: there is no such setting.
        """
        options = replace(options or LlamaOptions(), **keywords)
        path = Path(model).expanduser()
        try_first(path, options.try_first)
        laid = find_adapter(adapter, base=path) if adapter is not None else None
        loaded = LlamaModel(path, gpu_layers=gpu_layers, adapter=laid)
        try:
            tokenizer = LlamaTokenizer(loaded)
            self._llama = core = LlamaCore(loaded, options)
        except EngineError:
            loaded.close()
            raise
        super().__init__(
            info=_info(loaded, tokenizer, name or loaded.path.stem, why),
            tokenizer=tokenizer,
            core=core,
            sampler=NumpySampler,
            logprobs=logprobs,
            guess_tokens=loaded.is_on_gpu if options.guess_tokens is None else options.guess_tokens,
            close=lambda: _close(core, tokenizer, loaded),
        )

    @property
    def memory_plan(self) -> LlamaMemoryPlan:
        """How the budget was divided at the start."""
        return self._llama.plan

    @property
    def num_threads(self) -> int:
        """Threads that the next step computes with."""
        return self._llama.num_threads


def _info(model: LlamaModel, tokenizer: LlamaTokenizer, name: str, why: str) -> ModelInfo:
    return ModelInfo(
        name=name,
        digest=model.digest,
        context_tokens=model.context_tokens,
        vocabulary_size=tokenizer.vocabulary_size,
        scoring=read_scoring(model.digest) or learnt_scoring(model.adapter),
        why=why or f"{model.description} is a GGUF file, which llama.cpp {model.api.version} runs as it is",
    )


def _close(core: LlamaCore, tokenizer: LlamaTokenizer, model: LlamaModel) -> None:
    core.close()
    tokenizer.let_go()
    model.close()
