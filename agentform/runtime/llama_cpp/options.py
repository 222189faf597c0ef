"""What can be set of the engine on llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentform.errors import InvalidRequest

__all__ = ["LlamaOptions"]


@dataclass(frozen=True, kw_only=True)
class LlamaOptions:
    """Keyword arguments of `LlamaCppEngine`, beside those that say how the model is loaded.

    Raises:
        InvalidRequest: a number is out of its range.
    """

    kv_budget_bytes: int | None = None
    """For keys and values, and with recurrent layers their states and snapshots; by default 512 MiB, a quarter of the
    free memory, or what a full context takes, whichever is least. llama.cpp takes cells and states at the start.
    Weights and its scratch come on top."""
    host_budget_bytes: int = 0
    """What is evicted from `kv_budget_bytes` stays in the host's memory within this budget of its own."""
    kv_bits: int | None = None
    """8: keys and values are kept in 8 bits, each 32 numbers with a scale, on the device, in the host's memory and on
    disk: about half of the memory. Not by default: it costs a little exactnessand time."""
    max_batch_tokens: int = 512
    """Most prompt and branch tokens of one step."""
    num_slots: int = 4
    """Requests that run at a time with a model that has recurrent layers."""
    reuse_prefixes: bool = True
    """Without it every request starts from nothing: what the cache is measured against."""
    cache_dir: Path | str | None = None
    """Where ends of turns are kept, which outlive the engine; several engines and processes may share a folder."""
    disk_limit_bytes: int = 8 << 30
    """How much of `cache_dir` is used."""
    max_overtaken: int = 16
    """Of the requests that wait, those with the warmest prompts run first; none is overtaken by more than so many."""
    max_wait_s: float = 10.0
    """A request that has waited for so long is not overtaken at all."""
    num_threads: int | None = None
    """Threads that a step computes with; by default the physical cores that nobody else keeps busy, looked at again
    once a second."""
    guess_tokens: bool | None = None
    """Whether a completion that repeats text is computed several tokens to a step, see `prompt_lookup`; by default
    where layers run on a GPU. On a processor a token more costs up to as much as a step of its own."""
    try_first: bool | None = None
    """Whether a file that was never loaded here is first loaded in a process of its own, which llama.cpp may end over
    it; by default unless AGENTFORM_TRIAL_LOAD is 0. Files of the catalogue, which have a digest, need none."""

    def __post_init__(self) -> None:
        for name in ("max_batch_tokens", "num_slots", "num_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidRequest(f"{name} is {value}, and must be at least 1")
        if self.kv_bits not in (None, 8):
            raise InvalidRequest(f"kv_bits is {self.kv_bits}; it is 8, or left out: as the model computes")
        if self.cache_dir is not None:
            object.__setattr__(self, "cache_dir", Path(self.cache_dir))
