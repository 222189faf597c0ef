"""What a child is asked and what it answers: plain data that goes through a pipe as JSON.

Imported in every peer's environment: the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

__all__ = ["Driver", "Model", "Task", "Written", "shared_length"]


@dataclass(frozen=True, kw_only=True)
class Model:
    """Where the weights are, for every peer the same."""

    folder: str
    """Converted safetensors with tokenizer and chat template."""
    gguf: str
    """The same weights in four bits."""
    threads: int
    weights: str = "both"
    """Which kinds of weights agentform keeps on torch; others have one."""
    name: str = "smollm2-135m"
    """In agentform's catalogue."""
    engine: str = "torch"
    """Which engine agentform runs it on; "llama_cpp" reads the GGUF, as llama.cpp itself does."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One request. Peers that take a prompt read `ids` or `prompt`; those that apply the chat template
    themselves, `rendered`; agentform, `messages`."""

    kind: Literal["form", "call", "text"]
    messages: list[dict[str, Any]]
    """{"role", "content"}, and "calls" or "result" as agentform's messages have them."""
    rendered: list[dict[str, str]]
    """{"role", "content"}: what the chat template makes `prompt` of, up to its opening."""
    prompt: str
    ids: list[int]
    max_tokens: int
    opening: str = ""
    """How the answer begins already, at the end of `prompt`."""
    schema: dict[str, Any] | None = None
    """What is to be written: the form itself, or for a call {"name", "arguments"} of one of the tools."""
    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """{"name", "description", "parameters"}."""
    conversation: str | None = None
    """Whose next turn this is, for those who can use it."""

    def as_json(self) -> dict[str, Any]:
        """For the pipe."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Written:
    """What came of a task; tokens are null where a peer does not tell."""

    text: str
    seconds: float
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finish: str | None = None
    cpu_s: float | None = None
    """Processor time of the peer and all below it, all threads together; the child measures it."""


class Driver(Protocol):
    """What each module of `benchmarks.peers.drivers` offers as `make()`."""

    settings: Mapping[str, Any]
    """Whatever was set, for the result file."""

    def load(self, model: Model) -> None:
        """Make ready for tasks."""
        ...

    def run(self, task: Task) -> Written:
        """Do one task; the seconds are those between asking the peer and having its whole answer."""
        ...

    def prompt_ids(self, task: Task) -> list[int] | None:
        """The prompt as the peer reads it; None where it takes `task.ids` as they are or does not tell."""
        ...

    def close(self) -> None:
        """End what would otherwise go on."""
        ...


def shared_length(first: list[int], second: list[int]) -> int:
    """How many ids both begin with."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
