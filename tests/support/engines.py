"""Helpers that drive an engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Event

import anyio

from agentform.messages import Usage
from agentform.runtime.engine import Chunk, Engine, GenerateRequest
from agentform.runtime.scripted.engine import ScriptedEngine
from agentform.runtime.scripted.script import ScriptedStep
from agentform.runtime.torch.engine import TorchEngine
from agentform.runtime.torch.forward.runner import ModelRunner
from tests.support.waiting import PATIENCE_S

__all__ = ["Completion", "Gate", "HeldEngine", "complete", "settled"]


@dataclass(frozen=True, kw_only=True)
class Completion:
    """All chunks of one completion, joined."""

    text: str
    token_ids: tuple[int, ...]
    last: Chunk

    @property
    def usage(self) -> Usage:
        assert self.last.usage is not None
        return self.last.usage


async def complete(engine: Engine, prompt: Sequence[int], max_tokens: int = 16, **options) -> Completion:
    """Run a request to its end."""
    request = GenerateRequest(prompt_ids=tuple(prompt), max_tokens=max_tokens, **options)
    chunks = [chunk async for chunk in engine.generate(request)]
    assert all(chunk.finish is None and chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].finish is not None
    return Completion(
        text="".join(chunk.text for chunk in chunks),
        token_ids=tuple(token for chunk in chunks for token in chunk.token_ids),
        last=chunks[-1],
    )


async def settled(engine: TorchEngine) -> None:
    """Wait until no request holds anything, then check who owns what."""
    with anyio.fail_after(PATIENCE_S):
        while engine.statistics().live_tokens or engine.worker_is_busy():  # noqa: ASYNC110 - a thread's state
            await anyio.sleep(0.002)
    engine.integrity()


class HeldEngine(ScriptedEngine):
    """Says nothing before the test sets `go_on`."""

    def __init__(self, script: Iterable[ScriptedStep]) -> None:
        super().__init__(script)
        self.go_on = Event()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        while not self.go_on.is_set():  # noqa: ASYNC110 - the test's thread sets it
            await anyio.sleep(0.005)
        async for chunk in super().generate(request):
            yield chunk


class Gate:
    """Stops the engine's worker before each step until the test lets it go on."""

    def __init__(self, monkeypatch) -> None:
        self.steps: list[int] = []
        """Tokens of each step that was started."""
        self.fail_on: Callable[[int], bool] = lambda num_tokens: False
        self._open = Event()
        self._open.set()
        compute = ModelRunner.compute

        def gated(runner, segments):
            num_tokens = sum(len(segment.token_ids) for segment in segments)
            self.steps.append(num_tokens)
            assert self._open.wait(PATIENCE_S), "the test never opened the gate"
            if self.fail_on(num_tokens):
                raise RuntimeError("broken step")
            return compute(runner, segments)

        monkeypatch.setattr(ModelRunner, "compute", gated)

    def shut(self) -> None:
        """Hold the worker at its next step."""
        self._open.clear()

    def open(self) -> None:
        """Let the worker run."""
        self._open.set()

    async def reached(self, num_steps: int) -> None:
        """Wait until that many steps were started."""
        with anyio.fail_after(PATIENCE_S):
            while len(self.steps) < num_steps:  # noqa: ASYNC110 - a thread's state
                await anyio.sleep(0.001)
