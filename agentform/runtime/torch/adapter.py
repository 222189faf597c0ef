"""All that agentform uses of transformers, in one place; written for 5.12 to 5.24.

- `AutoConfig`, `AutoModelForCausalLM.from_pretrained(dtype=, attn_implementation=)`
- `AttentionInterface.register`: the attention function is called as
  `fn(module, query, key, value, mask, scaling=, dropout=, **kwargs)` and returns `(out, None)`. With an
  implementation that has no registered mask function, the model builds no mask.
- keyword arguments of the model's `forward` that it does not know reach the attention function; `agentform_step`
  travels that way. No cache object is given: the function itself stores the new keys and values.
- `forward(logits_to_keep=)` takes an index tensor.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from agentform.errors import EngineError
from agentform.runtime.torch.kv_pool import LayerShape

__all__ = ["LayerAttention", "forward", "load_model", "prepare", "probe_layers"]

_NAME = "agentform"


class LayerAttention(Protocol):
    """Does the attention of one layer; a `Step`, or the probe."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """See `Step.attend`."""
        ...


def load_model(folder: Path, *, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """Load a causal language model for inference.

    Raises EngineError for a model that the engine cannot serve.
    """
    config = AutoConfig.from_pretrained(folder)
    _refuse_unsupported(config)
    AttentionInterface.register(_NAME, _attention)
    try:
        with _no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=dtype, attn_implementation=_NAME)
    except ValueError as error:
        raise EngineError(f"transformers cannot load {config.model_type!r} from {folder}: {error}") from error
    nn.Module.to(model, device)  # in place
    return model.eval()


def prepare(model: PreTrainedModel) -> PreTrainedModel:
    """Make a loaded model attend through agentform; it must not be used elsewhere from now on."""
    _refuse_unsupported(model.config)
    AttentionInterface.register(_NAME, _attention)
    if model.config._attn_implementation != _NAME:
        model.set_attn_implementation(_NAME)
    return model.eval()


def forward(
    model: PreTrainedModel, attention: LayerAttention, input_ids: Tensor, position_ids: Tensor, rows: Tensor
) -> Tensor:
    """Logits `[rows, vocabulary]` of the packed tokens that `rows` names.

    input_ids and position_ids `[1, tokens]`, rows `[n]`.
    """
    output = model(
        input_ids=input_ids,
        position_ids=position_ids,
        use_cache=False,
        logits_to_keep=rows,
        agentform_step=attention,
    )
    return output.logits[0]


def probe_layers(model: PreTrainedModel) -> tuple[LayerShape, ...]:
    """What each attention layer stores per token, found by running two tokens through the model.

    Raises EngineError if not every layer is an attention layer that goes through agentform.
    """
    probe = _Probe()
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    places = torch.arange(2, device=model.device)
    with torch.inference_mode():
        forward(model, probe, ids, places.unsqueeze(0), places[-1:])
    expected = model.config.get_text_config().num_hidden_layers
    if sorted(probe.layers) != list(range(expected)):
        raise EngineError(
            f"{model.config.model_type!r}: {len(probe.layers)} of {expected} layers are plain attention layers; "
            "hybrid models are not supported yet"
        )
    return tuple(probe.layers[index] for index in range(expected))


class _Probe:
    """Notes shapes instead of attending."""

    def __init__(self) -> None:
        self.layers: dict[int, LayerShape] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        _, kv_heads, tokens, key_dim = key.shape
        self.layers[layer] = LayerShape(num_kv_heads=kv_heads, key_dim=key_dim, value_dim=value.shape[-1])
        return value.new_zeros(1, tokens, query.shape[1], value.shape[-1])


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    agentform_step: LayerAttention | None = None,
    **extras: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls per layer; see the module docstring."""
    if agentform_step is None:
        raise EngineError(f"{type(module).__name__} was called outside agentform or drops keyword arguments")
    for name in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if extras.get(name) is not None:
            raise EngineError(f"{type(module).__name__} needs {name}, which is not supported yet")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: Any = module.layer_idx
    return agentform_step.attend(layer, query, key, value, scale), None


@contextmanager
def _no_progress_bar() -> Generator[None]:
    """transformers' bar is a process-wide switch; leave it as it was."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _refuse_unsupported(config: Any) -> None:
    """Raise EngineError for what can be seen from the configuration alone."""
    text = config.get_text_config()
    kinds = {kind for kind in getattr(text, "layer_types", None) or () if kind != "full_attention"}
    if kinds:
        raise EngineError(f"{config.model_type!r} has layers of kind {sorted(kinds)}, which are not supported yet")
    if getattr(text, "sliding_window", None) and getattr(text, "use_sliding_window", True):
        raise EngineError(f"{config.model_type!r} uses a sliding window, which is not supported yet")
    if getattr(config, "is_encoder_decoder", False):
        raise EngineError(f"{config.model_type!r} is an encoder-decoder model; a causal language model is needed")
