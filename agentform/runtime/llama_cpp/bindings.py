"""The C API of llama.h, as far as it is used, bound to one library with its types."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentform.errors import EngineError
from agentform.runtime.llama_cpp.layout import DecodeBatch, Layout, layout_of
from agentform.runtime.llama_cpp.library import find_library

__all__ = ["Bindings", "Said", "bindings"]

_POINTER, _INT, _SIZE, _TEXT, _BOOL = ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_bool
_FLAGS = ctypes.c_uint32
_ERROR = 4
"""`GGML_LOG_LEVEL_ERROR`"""
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "llama_backend_init": (None, ()),
    "llama_log_set": (None, (_POINTER, _POINTER)),
    "llama_supports_gpu_offload": (_BOOL, ()),
    "llama_model_free": (None, (_POINTER,)),
    "llama_model_get_vocab": (_POINTER, (_POINTER,)),
    "llama_model_n_ctx_train": (_INT, (_POINTER,)),
    "llama_model_n_swa": (_INT, (_POINTER,)),
    "llama_model_size": (ctypes.c_uint64, (_POINTER,)),
    "llama_model_desc": (_INT, (_POINTER, _TEXT, _SIZE)),
    "llama_model_meta_count": (_INT, (_POINTER,)),
    "llama_model_meta_val_str": (_INT, (_POINTER, _TEXT, _TEXT, _SIZE)),
    "llama_model_meta_key_by_index": (_INT, (_POINTER, _INT, _TEXT, _SIZE)),
    "llama_model_meta_val_str_by_index": (_INT, (_POINTER, _INT, _TEXT, _SIZE)),
    "llama_model_chat_template": (_TEXT, (_POINTER, _TEXT)),
    "llama_model_has_encoder": (_BOOL, (_POINTER,)),
    "llama_model_has_decoder": (_BOOL, (_POINTER,)),
    "llama_model_is_recurrent": (_BOOL, (_POINTER,)),
    "llama_model_is_hybrid": (_BOOL, (_POINTER,)),
    "llama_model_is_diffusion": (_BOOL, (_POINTER,)),
    "llama_free": (None, (_POINTER,)),
    "llama_n_ctx": (ctypes.c_uint32, (_POINTER,)),
    "llama_set_n_threads": (None, (_POINTER, _INT, _INT)),
    "llama_adapter_lora_init": (_POINTER, (_POINTER, _TEXT)),
    "llama_set_adapters_lora": (_INT, (_POINTER, _POINTER, _SIZE, _POINTER)),
    "llama_get_memory": (_POINTER, (_POINTER,)),
    "llama_memory_seq_rm": (_BOOL, (_POINTER, _INT, _INT, _INT)),
    "llama_memory_seq_cp": (None, (_POINTER, _INT, _INT, _INT, _INT)),
    "llama_state_seq_get_size_ext": (_SIZE, (_POINTER, _INT, _FLAGS)),
    "llama_state_seq_get_data_ext": (_SIZE, (_POINTER, _POINTER, _SIZE, _INT, _FLAGS)),
    "llama_state_seq_set_data_ext": (_SIZE, (_POINTER, _POINTER, _SIZE, _INT, _FLAGS)),
    "llama_decode": (_INT, (_POINTER, DecodeBatch)),
    "llama_get_logits_ith": (_POINTER, (_POINTER, _INT)),
    "llama_vocab_n_tokens": (_INT, (_POINTER,)),
    "llama_vocab_type": (_INT, (_POINTER,)),
    "llama_vocab_get_attr": (_INT, (_POINTER, _INT)),
    "llama_vocab_is_eog": (_BOOL, (_POINTER, _INT)),
    "llama_vocab_bos": (_INT, (_POINTER,)),
    "llama_vocab_eos": (_INT, (_POINTER,)),
    "llama_tokenize": (_INT, (_POINTER, _TEXT, _INT, _POINTER, _INT, _BOOL, _BOOL)),
    "llama_token_to_piece": (_INT, (_POINTER, _INT, _TEXT, _INT, _INT, _BOOL)),
}


class Said:
    """The last lines that llama.cpp logged as errors; it says nothing on its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines: deque[str] = deque(maxlen=8)

    def hear(self, level: int, text: bytes, data: object) -> None:
        """`ggml_log_callback`; called from any thread."""
        del data
        if level == _ERROR:
            self.lines.append(text.decode(errors="replace").strip())

    def reason(self) -> str:
        """The first of them, which says what was wrong."""
        return self.lines[0] if self.lines else "it does not say why"


class Bindings:
    """A library that was checked; calls release the interpreter's lock."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            EngineError: no llama.cpp that is bound.
        """
        self.path = path
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise EngineError(f"{path} cannot be loaded: {error}") from error
        self.version = self._version()
        self.layout: Layout = layout_of(self.version)
        self._declare()
        self.layout.check(self.llama_model_default_params(), self.llama_context_default_params())
        self._said = Said()
        self._hear = ctypes.CFUNCTYPE(None, ctypes.c_int, _TEXT, _POINTER)(self._said.hear)
        self.llama_log_set(self._hear, None)
        self.llama_backend_init()
        self._load_backends()

    def __getattr__(self, name: str) -> Any:
        """Functions are attributes; this is for the type checker, and for a name that was not declared."""
        raise AttributeError(f"{name} is not a function of llama.h that is bound")

    @contextmanager
    def listening(self) -> Generator[Said]:
        """What the library logs as errors inside the block; one block at a time."""
        with self._said.lock:
            self._said.lines.clear()
            yield self._said

    def _version(self) -> str:
        try:
            function = self._library.llama_version
        except AttributeError as error:
            raise EngineError(f"{self.path} is no llama.cpp, or one before release 0.5.0: {error}") from error
        function.restype = _TEXT
        return function().decode()

    def _declare(self) -> None:
        model, context = self.layout.model_params, self.layout.context_params
        functions = {
            **_FUNCTIONS,
            "llama_model_default_params": (model, ()),
            "llama_context_default_params": (context, ()),
            "llama_model_load_from_file": (_POINTER, (_TEXT, model)),
            "llama_init_from_model": (_POINTER, (_POINTER, context)),
        }
        try:
            for name, (result, arguments) in functions.items():
                function = getattr(self._library, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
        except AttributeError as error:
            raise EngineError(f"{self.path} lacks a function of llama.cpp {self.version}: {error}") from error

    def _load_backends(self) -> None:
        """Builds whose processors lie in libraries of their own know none until they are asked to look beside them."""
        count = getattr(self._library, "ggml_backend_dev_count", None)
        load = getattr(self._library, "ggml_backend_load_all_from_path", None)
        if count is None or load is None:
            return
        count.restype, load.restype, load.argtypes = _SIZE, None, (_TEXT,)
        if not count():
            load(str(self.path.parent).encode())


def bindings() -> Bindings:
    """The library that `find_library` names, loaded once.

    Raises:
        EngineError, MissingDependency
    """
    return _loaded(find_library())


@lru_cache(maxsize=4)
def _loaded(path: Path) -> Bindings:
    """A library stays in the process whatever is done, so its binding may as well."""
    return Bindings(path)
