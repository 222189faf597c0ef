"""The parameter structures of llama.h, by release, and the check that a library has the ones that are bound.

llama.cpp changes them between releases without saying so in their size. A library is used only if it names a release
that is known here and its own defaults stand where they should.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentform._util.install import install_line
from agentform.errors import EngineError

__all__ = ["DecodeBatch", "Layout", "layout_of"]

_PADDING = ("_padding", ctypes.c_uint8 * 64)
"""After the last field: whatever a library might write or read beyond it is ours."""


class DecodeBatch(ctypes.Structure):
    """`struct llama_batch`."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.c_void_p),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.c_void_p),
        ("n_seq_id", ctypes.c_void_p),
        ("seq_id", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
    )


_MODEL = (
    ("devices", ctypes.c_void_p),
    ("tensor_buft_overrides", ctypes.c_void_p),
    ("n_gpu_layers", ctypes.c_int32),
    ("split_mode", ctypes.c_int32),
    ("load_mode", ctypes.c_int32),
    ("lazy_mode", ctypes.c_int32),
    ("main_gpu", ctypes.c_int32),
    ("tensor_split", ctypes.c_void_p),
    ("progress_callback", ctypes.c_void_p),
    ("progress_callback_user_data", ctypes.c_void_p),
    ("kv_overrides", ctypes.c_void_p),
    ("vocab_only", ctypes.c_bool),
    ("check_tensors", ctypes.c_bool),
    ("use_extra_bufts", ctypes.c_bool),
    ("no_host", ctypes.c_bool),
    ("no_alloc", ctypes.c_bool),
    ("load_mtp", ctypes.c_bool),
)
_CONTEXT_HEAD = (
    ("n_ctx", ctypes.c_uint32),
    ("n_batch", ctypes.c_uint32),
    ("n_ubatch", ctypes.c_uint32),
    ("n_seq_max", ctypes.c_uint32),
    ("n_rs_seq", ctypes.c_uint32),
    ("n_outputs_max", ctypes.c_uint32),
    ("n_outputs_max_per_seq", ctypes.c_uint32),
    ("n_threads", ctypes.c_int32),
    ("n_threads_batch", ctypes.c_int32),
    ("ctx_type", ctypes.c_int32),
    ("rope_scaling_type", ctypes.c_int32),
    ("pooling_type", ctypes.c_int32),
    ("attention_type", ctypes.c_int32),
    ("flash_attn_type", ctypes.c_int32),
    ("rope_freq_base", ctypes.c_float),
    ("rope_freq_scale", ctypes.c_float),
    ("yarn_ext_factor", ctypes.c_float),
    ("yarn_attn_factor", ctypes.c_float),
    ("yarn_beta_fast", ctypes.c_float),
    ("yarn_beta_slow", ctypes.c_float),
    ("yarn_orig_ctx", ctypes.c_uint32),
    ("defrag_thold", ctypes.c_float),
    ("cb_eval", ctypes.c_void_p),
    ("cb_eval_user_data", ctypes.c_void_p),
    ("type_k", ctypes.c_int32),
    ("type_v", ctypes.c_int32),
)
_MOE_CACHE = (("moe_cache_size", ctypes.c_size_t),)
_CONTEXT_TAIL = (
    ("abort_callback", ctypes.c_void_p),
    ("abort_callback_data", ctypes.c_void_p),
    ("embeddings", ctypes.c_bool),
    ("offload_kqv", ctypes.c_bool),
    ("no_perf", ctypes.c_bool),
    ("op_offload", ctypes.c_bool),
    ("swa_full", ctypes.c_bool),
    ("kv_unified", ctypes.c_bool),
    ("samplers", ctypes.c_void_p),
    ("n_samplers", ctypes.c_size_t),
    ("ctx_other", ctypes.c_void_p),
)
_MODEL_DEFAULTS = {
    "devices": None,
    "tensor_buft_overrides": None,
    "split_mode": 1,
    "lazy_mode": 1,
    "main_gpu": 0,
    "tensor_split": None,
    "kv_overrides": None,
    "vocab_only": False,
    "use_extra_bufts": True,
    "no_host": False,
    "no_alloc": False,
}
_CONTEXT_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_outputs_max": 0,
    "rope_scaling_type": -1,
    "pooling_type": -1,
    "attention_type": -1,
    "flash_attn_type": -1,
    "yarn_ext_factor": -1.0,
    "defrag_thold": -1.0,
    "cb_eval": None,
    "type_k": 1,
    "type_v": 1,
    "abort_callback": None,
    "embeddings": False,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
    "kv_unified": False,
    "samplers": None,
    "n_samplers": 0,
    "ctx_other": None,
}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The structures of one release."""

    release: str
    model_params: type[ctypes.Structure]
    context_params: type[ctypes.Structure]

    def check(self, model: ctypes.Structure, context: ctypes.Structure) -> None:
        """Compare a library's own defaults with what they are known to be.

        Raises:
            EngineError: they are not where they should be.
        """
        wrong = [*_differences(model, _MODEL_DEFAULTS), *_differences(context, _CONTEXT_DEFAULTS)]
        if wrong:
            raise EngineError(
                f"this build of llama.cpp says that it is {self.release}, but its parameters are laid out otherwise "
                f"({', '.join(wrong)}); {_what_would_do()}"
            )


def layout_of(version: str) -> Layout:
    """The layout of the release that `llama_version` names.

    Raises:
        EngineError: a release that is not bound.
    """
    layout = _LAYOUTS.get(version.removesuffix("-dev"))
    if layout is None:
        raise EngineError(f"llama.cpp {version} is not a release that agentform is bound to; {_what_would_do()}")
    return layout


def _what_would_do() -> str:
    return (
        f"it is bound to {' and '.join(sorted(_LAYOUTS))}, which llama-cpp-python 0.3.36 and xllamacpp 2026.10.11549 "
        f"({install_line('llama')}) hold"
    )


def _differences(params: ctypes.Structure, expected: Mapping[str, Any]) -> list[str]:
    found = {name: getattr(params, name) for name in expected}
    return [f"{name} is {found[name]}, not {value}" for name, value in expected.items() if found[name] != value]


def _structure(name: str, *parts: tuple[tuple[str, Any], ...]) -> type[ctypes.Structure]:
    fields = [field for part in (*parts, (_PADDING,)) for field in part]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _layout(release: str, *context: tuple[tuple[str, Any], ...]) -> Layout:
    return Layout(
        release=release,
        model_params=_structure("ModelParams", _MODEL),
        context_params=_structure("ContextParams", *context),
    )


_LAYOUTS: Mapping[str, Layout] = {
    "0.5.0": _layout("0.5.0", _CONTEXT_HEAD, _CONTEXT_TAIL),
    "0.6.0": _layout("0.6.0", _CONTEXT_HEAD, _MOE_CACHE, _CONTEXT_TAIL),
}
