"""A GGUF file that was loaded: weights, vocabulary and metadata, behind one handle."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from agentform.errors import EngineError, WeightsCorrupt
from agentform.runtime.llama_cpp.bindings import Bindings, bindings
from agentform.runtime.models.adapter_file import adapter_digest
from agentform.runtime.models.gguf_header import check_gguf

__all__ = ["LlamaModel", "checked_files"]

_LONGEST_KEY = 256


def checked_files(path: Path) -> list[Path]:
    """The file, or all parts of a split one, whose heads hold nothing that cannot be.

    Raises:
        WeightsCorrupt: one of them does.
    """
    stem, mark, count = path.stem.rpartition("-of-")
    split = bool(mark) and count.isdigit()
    files = sorted(path.parent.glob(f"{stem[: stem.rfind('-')]}-*-of-{count}.gguf")) if split else [path]
    for part in files:
        check_gguf(part)
    return files


class LlamaModel:
    """Owns `struct llama_model`; nothing of it may be used after `close`."""

    def __init__(
        self,
        path: Path,
        *,
        vocabulary_only: bool = False,
        gpu_layers: int | None = None,
        adapter: Path | None = None,
    ) -> None:
        """Load a GGUF file; of a split one the first, the others lie beside it.

        `gpu_layers`: how many layers go to a GPU, by default all where the build of llama.cpp has one.
        `adapter`: the folder of an adapter that contexts of the model use.

        Raises:
            WeightsCorrupt, EngineError, MissingDependency
        """
        self.path, self.adapter = path, adapter
        self._gpu_layers = gpu_layers
        self.paths = checked_files(path)
        """The file, or all parts of a split one."""
        self.api: Bindings = bindings()
        self._lock = threading.Lock()
        self._handle: int | None = self._load(vocabulary_only)
        if not vocabulary_only:
            self._refuse_what_does_not_continue_text()

    @property
    def handle(self) -> int:
        """`struct llama_model *`."""
        assert self._handle is not None, "a model that was closed"
        return self._handle

    @property
    def vocabulary(self) -> int:
        """`const struct llama_vocab *`."""
        return self.api.llama_model_get_vocab(self.handle)

    @property
    def context_tokens(self) -> int:
        """Tokens of context that the model was trained with."""
        return self.api.llama_model_n_ctx_train(self.handle)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors."""
        return self.api.llama_model_size(self.handle)

    @property
    def is_recurrent(self) -> bool:
        """Whether any layer keeps a state instead of keys and values."""
        return self.api.llama_model_is_recurrent(self.handle) or self.api.llama_model_is_hybrid(self.handle)

    @property
    def has_window(self) -> bool:
        """Whether any layer attends to a window of the last tokens only."""
        return self.api.llama_model_n_swa(self.handle) > 0

    @property
    def window_tokens(self) -> int:
        """Tokens of that window; 0 for none."""
        return self.api.llama_model_n_swa(self.handle)

    @property
    def is_on_gpu(self) -> bool:
        """Whether any layer is computed on a GPU."""
        return self._gpu_layers != 0 and self.api.llama_supports_gpu_offload()

    @cached_property
    def description(self) -> str:
        """Architecture, size and quantisation, such as "qwen2 1B Q4_K - Medium"."""
        text = ctypes.create_string_buffer(_LONGEST_KEY)
        self.api.llama_model_desc(self.handle, text, len(text))
        return text.value.decode(errors="replace")

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The file's fields that are no arrays, as text."""
        read = self._field
        keys, values = self.api.llama_model_meta_key_by_index, self.api.llama_model_meta_val_str_by_index
        return {read(keys, i): read(values, i) for i in range(self.api.llama_model_meta_count(self.handle))}

    def chat_template(self, name: str | None = None) -> str | None:
        """The template of that name, by default the main one; `None` if the file has none.

        Raises:
            WeightsCorrupt: it is no UTF-8.
        """
        text = self.api.llama_model_chat_template(self.handle, name.encode() if name else None)
        try:
            return text.decode() if text else None
        except UnicodeDecodeError as error:
            raise WeightsCorrupt(f"{self.path}: the chat template is no UTF-8 text: {error}") from error

    @cached_property
    def digest(self) -> str:
        """Identifies the file without reading its weights: its size and time, and its metadata."""
        stats = [(part.name, part.stat().st_size, part.stat().st_mtime_ns) for part in self.paths]
        facts = repr((stats, sorted(self.metadata.items()), "llama.cpp"))
        found = hashlib.sha256(facts.encode()).hexdigest()
        return found if self.adapter is None else adapter_digest(found, self.adapter)

    def close(self) -> None:
        """Free it; closing twice is harmless."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            self.api.llama_model_free(handle)

    def _load(self, vocabulary_only: bool) -> int:
        params = self.api.llama_model_default_params()
        params.vocab_only = vocabulary_only
        if self._gpu_layers is not None:
            params.n_gpu_layers = self._gpu_layers
        with self.api.listening() as said:
            handle = self.api.llama_model_load_from_file(str(self.path).encode(), params)
        if not handle:
            raise WeightsCorrupt(f"{self.path} cannot be loaded by llama.cpp {self.api.version}: {said.reason()}")
        return handle

    def _refuse_what_does_not_continue_text(self) -> None:
        api, handle = self.api, self.handle
        kind = None
        if api.llama_model_has_encoder(handle) or not api.llama_model_has_decoder(handle):
            kind = "an encoder"
        elif api.llama_model_is_diffusion(handle):
            kind = "a diffusion model"
        if kind is not None:
            told = self.description
            self.close()
            raise EngineError(f"{self.path} holds {kind} ({told}); what is needed is a model that continues text")

    def _field(self, read: Any, index: int) -> str:
        size = read(self.handle, index, None, 0)
        text = ctypes.create_string_buffer(max(size, 0) + 1)
        read(self.handle, index, text, len(text))
        return text.value.decode(errors="replace")
