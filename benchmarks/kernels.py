"""Kernels on a GPU: bandwidth against a plain copy, and a restore against the prefill it saves.

Sizes are those of Qwen3-Next: 36 recurrent layers of 32 heads of 128 x 128. Needs a CUDA device.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from agentform.cli.tables import Table
from agentform.kernels import gated_delta, state_pack
from benchmarks.common.harness import Context

__all__ = ["bars", "measure", "measure_pack", "measure_replay", "measure_restore", "measure_step", "run", "show"]

_LAYERS, _HEADS, _DIM = 36, 32, 128
_KEPT = (1.0, 0.7, 0.4)
_PROMPT_TOKENS = 4096
_ROUNDS = 20
_LEAST_OF_COPY, _MOST_OF_PREFILL = 0.7, 0.05
"""Bars: pack and unpack against a copy, a restore against the prefill that it saves."""


def run(context: Context) -> None:
    """Measure, print and write; without a GPU it says so."""
    if not torch.cuda.is_available():
        context.console.print("no CUDA device: the kernels' bandwidth is not measured here")
        return
    figures = measure(torch.device("cuda"), rounds=5 if context.quick else _ROUNDS)
    show(context.console, figures)
    context.write({"device": torch.cuda.get_device_name(), **figures})


def measure(
    device: torch.device,
    *,
    rounds: int = _ROUNDS,
    layers: int = _LAYERS,
    heads: int = _HEADS,
    dim: int = _DIM,
    tokens: int = _PROMPT_TOKENS,
) -> dict[str, Any]:
    """Everything on one device; sizes are by default those of Qwen3-Next."""
    sizes: dict[str, Any] = {"rounds": rounds, "heads": heads, "dim": dim}
    return {
        "pack": [
            measure_pack(device, kept=kept, value_first=value_first, bits=bits, **sizes | {"heads": num})
            for bits in (8, 4)
            for num in (heads, heads * layers)
            for kept in _KEPT
            for value_first in (False, True)
        ],
        "restore": measure_restore(device, tokens=tokens, layers=layers, **sizes),
        "step": [measure_step(device, branches=branches, tokens=8, **sizes) for branches in (1, 8, 32)],
        "replay": measure_replay(device, tokens=32, **sizes),
    }


def show(console: Console, figures: dict[str, Any]) -> None:
    """Print what `measure` gave."""
    console.print(_table(figures["pack"]))
    console.print({name: found for name, found in figures.items() if name != "pack"})
    for line in bars(figures):
        console.print(line, markup=False)


def bars(figures: dict[str, Any]) -> list[str]:
    """Whether what was set is reached. The states of all layers count: one layer's are a launch more than a copy."""
    largest = max(row["heads"] for row in figures["pack"])
    whole = [row for row in figures["pack"] if row["heads"] == largest]
    lines: list[str] = []
    for name in ("pack", "unpack"):
        least = min(row[f"{name}_of_copy"] for row in whole)
        said = "reached" if least >= _LEAST_OF_COPY else "missed"
        lines.append(f"{said}: {name} of all layers, the slowest: {least:.0%} of a copy, goal {_LEAST_OF_COPY:.0%}")
    share, path = figures["restore"]["share"], figures["restore"]["prefill_path"]
    said = "reached" if share < _MOST_OF_PREFILL else "missed"
    return [*lines, f"{said}: a restore takes {share:.1%} of the prefill ({path}), goal {_MOST_OF_PREFILL:.0%}"]


def measure_pack(
    device: torch.device, *, heads: int, kept: float, value_first: bool, rounds: int, bits: int = 8, dim: int = _DIM
) -> dict[str, Any]:
    """Bytes per second of packing to `bits` (8 or 4) and unpacking, and the same over those of a copy of the state.

    Medians of A B A B.
    """
    state = torch.randn(heads, dim, dim, device=device)
    state = state.mT if value_first else state
    rows = torch.randperm(heads * dim, device=device)[: int(heads * dim * kept)].sort().values
    places = torch.full((heads * dim,), -1, dtype=torch.int32, device=device)
    places[rows] = torch.arange(len(rows), dtype=torch.int32, device=device)
    pack = state_pack.pack if bits == 8 else state_pack.pack_int4
    packed, none = pack(state, rows), state_pack.pack(state, rows[:0])
    eight, four = (packed, {}) if bits == 8 else (none, dict(zip(("nibbles", "ranges"), packed, strict=True)))
    target = torch.empty_like(state)
    small = sum(each.numel() * each.itemsize for each in packed)
    whole = state.numel() * state.itemsize
    work: dict[str, tuple[Callable[[], Any], int]] = {
        "copy": (lambda: target.copy_(state), 2 * whole),
        "pack": (lambda: pack(state, rows), len(rows) * dim * state.itemsize + small),
        "unpack": (lambda: state_pack.unpack(*eight, places, target, **four), small + whole),
    }
    seconds = _alternate({name: call for name, (call, _) in work.items()}, device, rounds)
    speed = {name: num / seconds[name] for name, (_, num) in work.items()}
    return {
        "heads": heads,
        "bits": bits,
        "kept": kept,
        "value_first": value_first,
        **{f"{name}_gb_per_s": rate / 1e9 for name, rate in speed.items()},
        **{f"{name}_of_copy": speed[name] / speed["copy"] for name in ("pack", "unpack")},
    }


def measure_restore(
    device: torch.device, *, tokens: int, rounds: int, layers: int = _LAYERS, heads: int = _HEADS, dim: int = _DIM
) -> dict[str, Any]:
    """A snapshot's unpacking against the prefill that it saves, of which only the recurrent layers are run.

    The layers are those of transformers, which are slow without flash-linear-attention: `prefill_path` says which ran.
    """
    states = torch.randn(layers, heads, dim, dim, device=device)
    rows = torch.arange(heads * dim, dtype=torch.int32, device=device)
    packed = [state_pack.pack(state, rows) for state in states]
    layer = _layer(heads, dim).to(device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    hidden = torch.randn(1, tokens, layer.hidden_size, device=device, dtype=layer.out_proj.weight.dtype)

    def restore() -> None:
        for state, (values, scales) in zip(states, packed, strict=True):
            state_pack.unpack(values, scales, rows, state)

    def prefill() -> None:
        with torch.inference_mode():
            layer(hidden)

    seconds = _alternate({"restore": restore, "prefill": prefill}, device, rounds)
    prefill_s = seconds["prefill"] * layers
    return {
        "tokens": tokens,
        "prefill_path": "flash-linear-attention" if find_spec("fla") else "transformers' reference",
        "restore_s": seconds["restore"],
        "prefill_of_recurrent_layers_s": prefill_s,
        "share": seconds["restore"] / prefill_s,
    }


def measure_step(
    device: torch.device, *, branches: int, tokens: int, rounds: int, heads: int = _HEADS, dim: int = _DIM
) -> dict[str, Any]:
    """Short branches from one state, against a copy of the states behind them: the least that a step has to write."""
    key = torch.nn.functional.normalize(torch.randn(branches, tokens, heads // 2, dim, device=device), dim=-1)
    value, beta = torch.randn(branches, tokens, heads, dim, device=device), torch.rand(branches, tokens, heads)
    decay, lengths = -torch.rand(branches, tokens, heads, 1), torch.full((branches,), tokens, dtype=torch.int32)
    inputs = [key, key, value, decay.to(device), beta.to(device), lengths.to(device)]
    state, states = torch.randn(heads, dim, dim, device=device), torch.randn(branches, heads, dim, dim, device=device)
    target = torch.empty_like(states)
    work: dict[str, Callable[[], Any]] = {
        "step": lambda: gated_delta.step_branches(*inputs, state),
        "copy": lambda: target.copy_(states),
    }
    seconds = _alternate(work, device, rounds)
    return {"branches": branches, "tokens": tokens, **{f"{name}_s": each for name, each in seconds.items()}}


def measure_replay(
    device: torch.device, *, tokens: int, rounds: int, heads: int = _HEADS, dim: int = _DIM
) -> dict[str, Any]:
    """Rebuilding a layer's heads from their last tokens against unpacking them."""
    key = torch.nn.functional.normalize(torch.randn(tokens, heads // 2, dim, device=device), dim=-1)
    value, beta = torch.randn(tokens, heads, dim, device=device), torch.rand(tokens, heads, device=device)
    decay, every = -torch.rand(tokens, heads, 1, device=device), torch.arange(heads, dtype=torch.int32, device=device)
    state = torch.zeros(heads, dim, dim, device=device)
    rows = torch.arange(heads * dim, device=device)
    values, scales = state_pack.pack(torch.randn_like(state), rows)
    places = rows.int()
    work: dict[str, Callable[[], Any]] = {
        "replay": lambda: gated_delta.replay(key, value, decay, beta, every, state),
        "unpack": lambda: state_pack.unpack(values, scales, places, state),
    }
    return {"tokens": tokens, **{f"{name}_s": each for name, each in _alternate(work, device, rounds).items()}}


def _layer(heads: int, dim: int) -> Any:
    from transformers import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    config = Qwen3NextConfig(
        hidden_size=heads * dim // 2,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        linear_num_value_heads=heads,
        linear_num_key_heads=heads // 2,
        linear_key_head_dim=dim,
        linear_value_head_dim=dim,
    )
    return Qwen3NextGatedDeltaNet(config, layer_idx=0).eval()


def _alternate(work: dict[str, Callable[[], Any]], device: torch.device, rounds: int) -> dict[str, float]:
    """Median seconds of each, taken in turns; the first round warms up."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds + 1):
        for name, call in work.items():
            taken[name].append(_seconds(call, device))
    return {name: statistics.median(each[1:]) for name, each in taken.items()}


def _seconds(call: Callable[[], Any], device: torch.device) -> float:
    if device.type != "cuda":
        started = time.perf_counter()
        call()
        return time.perf_counter() - started
    _flush(device)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    stop.record()
    torch.cuda.synchronize(device)
    return start.elapsed_time(stop) / 1e3


def _flush(device: torch.device) -> Tensor:
    """Empty the device's cache of what the last round left, so that reads come from memory.

    It takes the device longer than the host takes to launch what is measured, which else would wait for its launches.
    """
    return torch.zeros(1 << 30, dtype=torch.uint8, device=device)


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("heads", "bits", "kept", "key channels", "copy GB/s", "pack of copy", "unpack of copy")
    for row in rows:
        table.add_row(
            f"{row['heads']:,}",
            str(row["bits"]),
            f"{row['kept']:.0%}",
            "one apart" if row["value_first"] else "one row each",
            f"{row['copy_gb_per_s']:,.0f}",
            f"{row['pack_of_copy']:.0%}",
            f"{row['unpack_of_copy']:.0%}",
        )
    return table
