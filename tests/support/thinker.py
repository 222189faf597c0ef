"""A model that thinks between marks, then speaks, calls or fills in what a grammar asks for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from agentform.messages import Usage
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Branch, Chunk, GenerateRequest
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.call_templates import THINKING_TEMPLATES
from tests.support.recording_engine import RecordingEngine
from tests.support.tiny_tokenizer import write_tiny_tokenizer

__all__ = ["OPENED", "SWITCH", "Thinker", "thinker"]

OPENED = THINKING_TEMPLATES["a thought that the prompt opens"]
SWITCH = THINKING_TEMPLATES["a switch that closes the thought"]


class Thinker(RecordingEngine):
    """Thinks in `thought`, a piece a chunk; then begins a call where `calls`, or says `said`."""

    thought: Sequence[str] = ("\nhello", " the", " world\n")
    said = "\n\nFine."
    calls = True
    endless = False
    """Whether the thought never ends by itself."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        if request.grammar is not None:
            async for chunk in super().generate(request):
                yield chunk
            return
        self.generated.append(request)
        if "</think>" in request.stop:
            for piece in self.thought:
                yield Chunk(text=piece, token_ids=self.tokenizer.encode(piece))
            usage = Usage(prompt_tokens=len(request.prompt_ids), completion_tokens=5)
            yield (
                Chunk(usage=usage, finish="length")
                if self.endless
                else Chunk(usage=usage, finish="stop", stop="</think>")
            )
        elif self.calls and request.stop:
            yield Chunk(finish="stop", stop=request.stop[0], usage=Usage())
        else:
            yield Chunk(text=self.said, token_ids=self.tokenizer.encode(self.said))
            yield Chunk(finish="eos", usage=Usage(completion_tokens=2))

    def statistics(self) -> CacheStatistics:
        """Room for every prompt, as a server in front of it wants to know."""
        return CacheStatistics(capacity_tokens=100_000)

    def close(self) -> None:
        """Nothing is held."""


def _later(prompt: str, branch: Branch) -> tuple[float, ...]:
    """The end of a turn, and else the last option."""
    return tuple(-0.1 if at == len(branch.candidates) - 1 else -4.0 for at, _ in enumerate(branch.candidates))


def thinker(folder: Path, template: str = OPENED, *, value: str = "0") -> Thinker:
    """One with a tiny tokenizer and `template`; it writes `value` where a grammar asks for one."""
    tokenizer = HFTokenizer(write_tiny_tokenizer(folder, template=template))
    return Thinker(tokenizer, value=value, score_branch=_later)
