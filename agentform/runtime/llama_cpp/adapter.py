"""A LoRA adapter in llama.cpp: loaded for a model, in use in a context."""

from __future__ import annotations

import ctypes
from pathlib import Path

from agentform.errors import MissingDependency, WeightsCorrupt
from agentform.runtime.llama_cpp.model import LlamaModel
from agentform.runtime.models.adapter_file import GGUF_NAME
from agentform.runtime.models.gguf_header import check_gguf

__all__ = ["LlamaAdapter"]


class LlamaAdapter:
    """Owned by its model, which frees it."""

    def __init__(self, model: LlamaModel, folder: Path) -> None:
        """Load the adapter's GGUF file.

        Raises:
            WeightsCorrupt: it is damaged, or for another architecture.
            MissingDependency: it was not exported for llama.cpp.
        """
        path = folder / GGUF_NAME
        if not path.is_file():
            raise MissingDependency(
                f"{folder} has no {GGUF_NAME}, which llama.cpp reads; `agentform tune` writes it where it knows the "
                "architecture, and llama.cpp's own convert_lora_to_gguf.py does from peft's files. Where the model is "
                "a folder with safetensors, engine='torch' runs it"
            )
        check_gguf(path)
        self._model = model
        with model.api.listening() as said:
            handle = model.api.llama_adapter_lora_init(model.handle, str(path).encode())
        if not handle:
            raise WeightsCorrupt(f"{path} cannot be loaded by llama.cpp {model.api.version}: {said.reason()}")
        self._handle: int = handle

    def use(self, context: int) -> None:
        """Put it to use in a `struct llama_context *`, as it is.

        Raises:
            WeightsCorrupt: llama.cpp refuses it.
        """
        handles, scales = (ctypes.c_void_p * 1)(self._handle), (ctypes.c_float * 1)(1.0)
        if self._model.api.llama_set_adapters_lora(context, handles, 1, scales):
            raise WeightsCorrupt(f"llama.cpp {self._model.api.version} does not take the adapter")
