"""Decoder layers of Llama's shape with a third of the operations, for few tokens at a time on a CPU.

At one token a layer of transformers spends as long between its products as in them. Here the projections that read
the same input are one product, a norm is one call, and the rotary embedding is three operations for queries and keys
together. The layer computes what transformers' own does, up to rounding; it stands in for those classes that are
known to compute just this, and every other model keeps its own layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

__all__ = ["FusedBlock", "FusedBlocks", "MakeProduct", "fuse_blocks", "merged"]

_KNOWN = frozenset(
    f"transformers.models.{family}.modeling_{family}.{name}DecoderLayer"
    for family, name in (("llama", "Llama"), ("mistral", "Mistral"), ("qwen2", "Qwen2"))
) | {"agentform.runtime.torch.forward.llama.DenseLayer"}

_PARTS = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""A block's products, and the layers of transformers' that each of them stands for, in the order of its outputs."""

MakeProduct = Callable[[Sequence[str], Sequence[nn.Linear]], nn.Module]
"""From layers whose inputs are the same, by their names in the model, to one whose outputs are theirs in a row."""


class FusedBlocks(nn.Module):
    """All decoder layers of a model, called once where transformers would call them one by one."""

    def __init__(self, blocks: Sequence[FusedBlock]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(
        self, hidden_states: Tensor, *, position_embeddings: tuple[Tensor, Tensor], agentform_step: Any, **_: Any
    ) -> Tensor:
        """`[1, tokens, dim]` to the same shape, in float32: sums over layers are rounded nowhere.

        Behind the last layer only the rows that logits are made of are right: nobody reads the others.
        """
        hidden, rows = hidden_states[0].float(), agentform_step.rows
        for block in self.blocks[:-1]:
            hidden = block(hidden, *position_embeddings, agentform_step)
        if len(rows) == len(hidden):
            return self.blocks[-1](hidden, *position_embeddings, agentform_step).unsqueeze(0)
        if not len(rows):  # for its keys and values
            rows = rows.new_zeros(1)
        hidden[rows] = self.blocks[-1](hidden, *position_embeddings, agentform_step, rows)
        return hidden.unsqueeze(0)


class FusedBlock(nn.Module):
    """One decoder layer. Its calls were chosen with a clock: views by `view` and `narrow`, few modules inside."""

    def __init__(self, layer: Any, products: dict[str, nn.Module]) -> None:
        """`products` by the names in `_PARTS`."""
        super().__init__()
        attention, width = layer.self_attn, layer.self_attn.head_dim
        self._layer: int = attention.layer_idx
        self._num_heads: int = attention.q_proj.out_features // width
        self._num_kv_heads: int = attention.k_proj.out_features // width
        self._width: int = width
        self._scale: float = attention.scaling
        self._activation: nn.Module = layer.mlp.act_fn
        self.input_norm, self.mlp_norm = _FastNorm(layer.input_layernorm), _FastNorm(layer.post_attention_layernorm)
        self.qkv, self.out = products["qkv"], products["out"]
        self.gate_up, self.down = products["gate_up"], products["down"]
        # A module that is looked up and called by a module costs as much as an operation; these have no hooks.
        self._norms = self.input_norm.forward, self.mlp_norm.forward
        self._calls = self.qkv.forward, self.out.forward, self.gate_up.forward, self.down.forward
        self._act = self._activation.forward

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor, step: Any, rows: Tensor | None = None) -> Tensor:
        """Float32 `[tokens, dim]` to the same shape, in place; or to a copy of `rows` alone, which attend to all.

        Cos and sin as `_SignedRotary` gives them.
        """
        norm_input, norm_mlp = self._norms
        _, out, gate_up, down = self._calls
        attended = self._attend(norm_input(hidden), cos, sin, step)
        if rows is not None:
            hidden, attended = hidden[rows], attended[rows]
        hidden += out(attended)
        gate, up = gate_up(norm_mlp(hidden)).chunk(2, -1)
        hidden += down(self._act(gate) * up)
        return hidden

    def _attend(self, inputs: Tensor, cos: Tensor, sin: Tensor, step: Any) -> Tensor:
        tokens, num_rotated = len(inputs), self._num_heads + self._num_kv_heads
        heads = self._calls[0](inputs).view(1, tokens, -1, self._width)
        rotated = _rotate(heads.narrow(2, 0, num_rotated), cos, sin).transpose(1, 2)
        query, key = rotated.narrow(1, 0, self._num_heads), rotated.narrow(1, self._num_heads, self._num_kv_heads)
        value = heads.narrow(2, num_rotated, self._num_kv_heads).transpose(1, 2)
        return step.attend(self._layer, query, key, value, self._scale).view(tokens, -1)


class _FastNorm(nn.Module):
    """Root mean square norm of float32, rounded once to the dtype that the model computes in.

    x / sqrt(mean(x^2) + epsilon) is sqrt(dim) x / hypot(|x|, sqrt(dim epsilon)): for few tokens half the time of
    torch's `rms_norm`, which is as many operations again on the CPU.
    """

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self._dtype: torch.dtype = norm.weight.dtype
        dim = norm.weight.numel()
        self._weight = norm.weight.detach().float() * dim**0.5
        self._least = torch.tensor([(dim * norm.variance_epsilon) ** 0.5])

    def forward(self, hidden: Tensor) -> Tensor:
        length = torch.hypot(torch.linalg.vector_norm(hidden, dim=-1, keepdim=True), self._least)
        return (hidden / length * self._weight).to(self._dtype)


class _SignedRotary(nn.Module):
    """The model's own rotary embedding, made ready once per step for `_rotate`."""

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Cosine and sine, `[1, tokens, 1, width]` each, the first half of the sine negative."""
        cos, sin = self.rotary(*args, **kwargs)
        low, high = sin.chunk(2, dim=-1)
        return cos.unsqueeze(2), torch.cat((-low, high), dim=-1).unsqueeze(2)


def fuse_blocks(model: nn.Module, make_product: MakeProduct) -> int:
    """Replace the decoder layers of a model on the CPU if it is known to be of this shape; returns how many."""
    base: Any = getattr(model, "model", None)
    layers: Any = getattr(base, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not all(map(_is_known, layers)):
        return 0
    if any(parameter.device.type != "cpu" for parameter in layers.parameters()):
        return 0
    blocks: list[FusedBlock] = []
    for index in range(len(layers)):
        layer, layers[index] = layers[index], nn.Identity()  # its own weights go as its products come
        blocks.append(FusedBlock(layer, _products(layer, f"model.layers.{index}", make_product)))
    base.layers = nn.ModuleList([FusedBlocks(blocks)])
    base.rotary_emb = _SignedRotary(base.rotary_emb)
    base.norm = _FastNorm(base.norm)
    return len(blocks)


def merged(linears: Sequence[nn.Linear]) -> nn.Linear:
    """One layer whose outputs are those of `linears`, one after the other."""
    first = linears[0]
    if len(linears) == 1:
        return first
    whole = nn.Linear(first.in_features, sum(each.out_features for each in linears), bias=False, device="meta")
    whole.weight = _frozen(torch.cat([each.weight.detach() for each in linears]))
    if any(each.bias is not None for each in linears):
        whole.bias = _frozen(torch.cat([_bias(each) for each in linears]))
    return whole


def _products(layer: nn.Module, name: str, make: MakeProduct) -> dict[str, nn.Module]:
    products: dict[str, nn.Module] = {}
    for product, parts in _PARTS.items():
        linears = [cast("nn.Linear", layer.get_submodule(part)) for part in parts]
        products[product] = make([f"{name}.{part}" for part in parts], linears)
    return products


def _is_known(layer: nn.Module) -> bool:
    kind = type(layer)
    return f"{kind.__module__}.{kind.__qualname__}" in _KNOWN


def _bias(linear: nn.Linear) -> Tensor:
    return linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias.detach()


def _frozen(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`[1, tokens, heads, width]`: the two halves of each head are the coordinates that are turned."""
    return torch.addcmul(heads * cos, heads.roll(cos.shape[-1] // 2, dims=-1), sin)
