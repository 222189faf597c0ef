"""All that agentform uses of transformers, in one place; written for 5.12 to 5.24, recurrent layers for 5.24.

It is imported where it is needed: importing its models takes longer than loading a small one of our own.

- `AutoConfig`, `AutoModelForCausalLM.from_pretrained(dtype=, attn_implementation=)`
- `AttentionInterface.register`: the attention function is called as
  `fn(module, query, key, value, mask, scaling=, dropout=, **kwargs)` and returns `(out, None)`. With an
  implementation that has no registered mask function, the model builds no mask.
- keyword arguments of the model's `forward` that it does not know reach the attention function; `agentform_step`
  travels that way. No cache object is given: the function itself stores the new keys and values.
- `forward(logits_to_keep=)` takes an index tensor.
- recurrent layers (gated delta, KDA, Mamba2, short convolution) are modules with a `layer_idx` and an `nn.Conv1d` of
  their own. Their `forward(hidden_states, cache=)` is called once per sequence or batch of equal sequences, with
  `LinearState` for the cache; `linear_state` names the methods that they call. This needs transformers 5.24.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from agentform.errors import EngineError, WeightsCorrupt
from agentform.runtime.torch.forward.kv_pool import LayerShape
from agentform.runtime.torch.forward.llama import DenseModel, load_dense_model
from agentform.runtime.torch.forward.recurrent_cache import Layer, LinearState, ShapeProbe
from agentform.runtime.torch.snapshots.codec import StateShape

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["CausalModel", "LayerWork", "Layers", "forward", "load_model", "no_progress_bar", "prepare", "probe_layers"]

CausalModel: TypeAlias = "PreTrainedModel | DenseModel"
"""A causal language model: transformers' definition, or agentform's own."""

_NAME = "agentform"
_SUPPORTED_KINDS = frozenset(
    ("full_attention", "attention", "linear_attention", "conv", "mamba", "hybrid", "moe", "mlp", "sparse", "dense")
)
_WITHOUT_STATE = ("moe", "mlp")
_NOT_ATTENDED = {
    "sliding_window": "a window of the last tokens",
    "softcap": "a soft cap on attention",
    "s_aux": "attention sinks",
    "position_bias": "a bias by position",
}
"""What attention functions are told by keyword, and this one does not compute."""
_ELSEWHERE = (
    "which the engine on torch does not compute; llama.cpp does: load a GGUF file of the model (agentform[llama]), "
    "such as load_engine('org/name-GGUF:Q4_K_M')"
)


class LayerWork(Protocol):
    """Does what layers cannot do on packed tokens alone; a `Step`, or the probe."""

    rows: Tensor
    """Of the packed tokens those that logits are made of, `[n]`."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """See `Step.attend`."""
        ...

    def recur(self, layer: int, compute: Layer, hidden: Tensor) -> Tensor:
        """See `Step.recur`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Layers:
    """What layers keep, by their index in the model; one layer may be in both."""

    attention: Mapping[int, LayerShape]
    recurrent: Mapping[int, StateShape]
    compute: Mapping[int, Layer] = field(default_factory=dict[int, Layer], compare=False)
    """The recurrent layers themselves."""


class _Current(threading.local):
    """The step that this thread is in, for layers that the step does not reach through keyword arguments."""

    step: LayerWork | None = None


def load_model(folder: Path, *, dtype: torch.dtype, device: torch.device) -> CausalModel:
    """Load a causal language model for inference.

    Raises:
        EngineError: for a model that the engine cannot serve.
    """
    dense = load_dense_model(folder, dtype=dtype, device=device)
    return _from_transformers(folder, dtype, device) if dense is None else prepare(dense)


def _from_transformers(folder: Path, dtype: torch.dtype, device: torch.device) -> CausalModel:
    from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)  # else a terminal would be asked
    _refuse_unsupported(config)
    AttentionInterface.register(_NAME, _attention)
    try:
        with no_progress_bar():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, config=config, dtype=dtype, attn_implementation=_NAME, output_loading_info=True
            )
            model, found = loaded
    except ValueError as error:
        raise EngineError(f"transformers cannot load {config.model_type!r} from {folder}: {error}") from error
    _refuse_incomplete(folder, found)
    nn.Module.to(model, device)  # in place
    return prepare(model)


def _refuse_incomplete(folder: Path, found: Mapping[str, Any]) -> None:
    """transformers fills in with random numbers what it does not find."""
    if missing := sorted(map(str, found.get("missing_keys", ()))):
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise WeightsCorrupt(f"{folder} has no weights for {', '.join(missing[:3])}{more}")
    if other := sorted(map(str, found.get("mismatched_keys", ()))):
        raise WeightsCorrupt(f"{folder}: weights of another shape than config.json says: {', '.join(other[:3])}")


def prepare(model: CausalModel) -> CausalModel:
    """Make a loaded model attend through agentform; it must not be used elsewhere from now on.

    Raises:
        EngineError: for a model that cannot be served.
    """
    _refuse_unsupported(model.config)
    if not isinstance(model, DenseModel):
        _attend_through_agentform(model)
    if not hasattr(model, "agentform_current"):
        current = _Current()
        object.__setattr__(model, "agentform_current", current)
        for module in model.modules():
            if _is_recurrent(module):
                _divert(module, current)
    return model.eval()


def _attend_through_agentform(model: PreTrainedModel) -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attention)
    if model.config._attn_implementation != _NAME:
        model.set_attn_implementation(_NAME)


def forward(model: CausalModel, step: LayerWork, input_ids: Tensor, position_ids: Tensor) -> Tensor:
    """Logits `[rows, vocabulary]` of the packed tokens that the step's `rows` names.

    input_ids and position_ids `[1, tokens]`.
    """
    current: Any = model.agentform_current
    current.step = step
    try:
        output = model(
            input_ids=input_ids,
            position_ids=position_ids,
            use_cache=False,
            logits_to_keep=step.rows,
            agentform_step=step,
        )
    finally:
        current.step = None
    return output.logits[0]


def probe_layers(model: CausalModel) -> Layers:
    """What each layer keeps, per token or per sequence, found by running two tokens through the model.

    Raises:
        EngineError: not every layer goes through agentform.
    """
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    places = torch.arange(2, device=model.device)
    probe = _LayerProbe(places[-1:])
    with torch.inference_mode():
        forward(model, probe, ids, places.unsqueeze(0))
    text = model.config.get_text_config()
    kinds = getattr(text, "layer_types", None) or ("",) * text.num_hidden_layers
    expected = {index for index, kind in enumerate(kinds) if kind not in _WITHOUT_STATE}
    found = {*probe.attention, *probe.recurrent}
    if found != expected:
        raise EngineError(
            f"{model.config.model_type!r}: {len(found)} of {len(expected)} layers are attention or recurrent layers "
            "that agentform knows; this model is not supported yet"
        )
    return Layers(
        attention=dict(sorted(probe.attention.items())),
        recurrent=dict(sorted(probe.recurrent.items())),
        compute=probe.compute,
    )


class _LayerProbe:
    """Notes shapes instead of attending; recurrent layers run as they are."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.attention: dict[int, LayerShape] = {}
        self.recurrent: dict[int, StateShape] = {}
        self.compute: dict[int, Layer] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        _, kv_heads, tokens, key_dim = key.shape
        self.attention[layer] = LayerShape(num_kv_heads=kv_heads, key_dim=key_dim, value_dim=value.shape[-1])
        return value.new_zeros(1, tokens, query.shape[1], value.shape[-1])

    def recur(self, layer: int, compute: Layer, hidden: Tensor) -> Tensor:
        probe = ShapeProbe()
        out = compute(hidden, probe)
        single = probe.follow_up()
        compute(hidden[:, :1], single)
        self.recurrent[layer] = probe.shape(hidden, is_written_in_place=not single.num_updates)
        self.compute[layer] = compute
        return out


def _is_recurrent(module: nn.Module) -> bool:
    return hasattr(module, "layer_idx") and any(isinstance(child, nn.Conv1d) for child in module.children())


def _divert(module: nn.Module, current: _Current) -> None:
    """Make a recurrent layer ask the current step to run it, which calls it back sequence by sequence."""
    own = module.forward
    layer: Any = module.layer_idx
    if "cache" not in inspect.signature(own).parameters:
        import transformers

        raise EngineError(
            f"{type(module).__name__} of transformers {transformers.__version__} cannot continue from a state that it "
            "is given; models with recurrent layers need transformers 5.24 or newer"
        )

    def compute(hidden: Tensor, state: LinearState) -> Tensor:
        return own(hidden, cache=state)

    def forward(hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        if current.step is None:
            raise EngineError(f"{type(module).__name__} was called outside agentform")
        return current.step.recur(layer, compute, hidden_states)

    module.forward = forward


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    agentform_step: LayerWork | None = None,
    **extras: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls per layer; see the module docstring."""
    if agentform_step is None:
        raise EngineError(f"{type(module).__name__} was called outside agentform or drops keyword arguments")
    for name, what in _NOT_ATTENDED.items():
        if extras.get(name) is not None:
            raise EngineError(f"{type(module).__name__} needs {what} ({name}), {_ELSEWHERE}")
    if not getattr(module, "is_causal", True):
        raise EngineError(f"{type(module).__name__} lets tokens see later ones; a causal language model is needed")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: Any = module.layer_idx
    return agentform_step.attend(layer, query, key, value, scale), None


@contextmanager
def no_progress_bar() -> Generator[None]:
    """Inside, transformers draws no bar; its switch is the process's, and is left as it was."""
    from transformers.utils import logging

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
    kinds = {str(kind) for kind in getattr(text, "layer_types", None) or () if kind not in _SUPPORTED_KINDS}
    if kinds:
        raise EngineError(f"{config.model_type!r} has layers of kind {', '.join(sorted(kinds))}, {_ELSEWHERE}")
    if getattr(text, "sliding_window", None) and getattr(text, "use_sliding_window", True):
        raise EngineError(f"{config.model_type!r} has a sliding window of {text.sliding_window} tokens, {_ELSEWHERE}")
    if getattr(config, "is_encoder_decoder", False):
        raise EngineError(f"{config.model_type!r} is an encoder-decoder model; a causal language model is needed")
