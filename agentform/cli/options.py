"""Options that several commands take, by one name each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from agentform.cli.engine_settings import size_in_bytes
from agentform.errors import InvalidInput
from agentform.runtime.engine import Sampling
from agentform.turn.effort import ReasoningEffort

__all__ = [
    "AskedEngine",
    "CacheDir",
    "DType",
    "DeciderAddress",
    "Device",
    "Effort",
    "FrequencyPenalty",
    "HostBudget",
    "KVBits",
    "KVBudget",
    "MinP",
    "Model",
    "NumThreads",
    "PresencePenalty",
    "RepetitionPenalty",
    "Seed",
    "SnapshotPrecision",
    "Temperature",
    "TopK",
    "TopP",
    "asked_sampling",
]

Model: TypeAlias = Annotated[
    str, typer.Option("--model", help="A catalogue name, model folder, hub id, URL or `module:attribute`.")
]
NumThreads: TypeAlias = Annotated[
    int | None, typer.Option("--num-threads", min=1, help="Threads of the model; else as many as there are free cores.")
]
CacheDir: TypeAlias = Annotated[
    Path | None, typer.Option("--cache-dir", help="Keep what was read here, over restarts.")
]
AskedEngine: TypeAlias = Annotated[
    str | None, typer.Option("--engine", help="torch or llama_cpp, or what kind of server a URL is; else by itself.")
]
Device: TypeAlias = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda or cuda:1; else a GPU where there is one.")
]
DType: TypeAlias = Annotated[
    Literal["bfloat16", "float16", "float32"] | None,
    typer.Option("--dtype", help="What the engine on torch computes in; else bfloat16 where the device does."),
]
KVBudget: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--kv-budget",
        parser=size_in_bytes,
        metavar="SIZE",
        help="Memory for conversations, like 8GiB; else a share of what is free.",
    ),
]
HostBudget: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--host-budget",
        parser=size_in_bytes,
        metavar="SIZE",
        help="The host's memory for conversations that no longer fit there; else none.",
    ),
]
SnapshotPrecision: TypeAlias = Annotated[
    str | None,
    typer.Option("--snapshots", help="What is kept of a hybrid model's states: exact, int8, balanced, int4, small."),
]
KVBits: TypeAlias = Annotated[
    int | None,
    typer.Option("--kv-bits", min=8, max=8, help="8: conversations in half the memory, a little less exactly."),
]
DeciderAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--decider",
        help="The address of a System One endpoint that chooses tools and closed values; `#name` says which model. "
        "A key for it may be in AGENTFORM_DECIDER_KEY.",
    ),
]
Effort: TypeAlias = Annotated[
    ReasoningEffort | None,
    typer.Option("--reasoning-effort", help="How long the model thinks, or speaks before a call."),
]
Temperature: TypeAlias = Annotated[
    float | None,
    typer.Option("--temperature", min=0, max=2, help="Of what is written; 0, the default, takes the likeliest token."),
]
TopP: TypeAlias = Annotated[float | None, typer.Option("--top-p", max=1, help="Draw from so much probability.")]
TopK: TypeAlias = Annotated[int | None, typer.Option("--top-k", min=0, help="Draw from so many tokens; 0: from any.")]
MinP: TypeAlias = Annotated[
    float | None, typer.Option("--min-p", min=0, max=1, help="Draw what has this share of the likeliest's probability.")
]
Seed: TypeAlias = Annotated[int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Repeats what is drawn.")]
RepetitionPenalty: TypeAlias = Annotated[
    float | None, typer.Option("--repetition-penalty", help="Above 1: what was written becomes less likely.")
]
FrequencyPenalty: TypeAlias = Annotated[
    float | None, typer.Option("--frequency-penalty", min=-2, max=2, help="The same, by how often it was written.")
]
PresencePenalty: TypeAlias = Annotated[
    float | None, typer.Option("--presence-penalty", min=-2, max=2, help="The same, if it was written at all.")
]

_OF_A_DRAW = ("top_p", "top_k", "min_p", "seed")


def asked_sampling(**given: float | int | None) -> Sampling:
    """How tokens are drawn, from options by the names of `Sampling`; what is `None` was not given.

    Raises:
        InvalidInput: an option has no effect without a temperature, or has a value that no model can be asked for.
    """
    said = {name: value for name, value in given.items() if value is not None}
    useless = [_flag(name) for name in _OF_A_DRAW if name in said]
    if useless and not said.get("temperature"):
        have = "have" if len(useless) > 1 else "has"
        raise InvalidInput(f"{', '.join(useless)} {have} no effect without --temperature above 0: nothing is drawn")
    for name in ("top_p", "repetition_penalty"):
        if said.get(name, 1) <= 0:
            raise InvalidInput(f"{_flag(name)} must be above 0, got {said[name]}")
    return Sampling(**said)  # type: ignore[arg-type]  # names and types are those of the options above


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
