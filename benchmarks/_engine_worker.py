"""agentform's engine in a process of its own, for `benchmarks.decode`; speaks as `_llama_worker` does."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import anyio

from agentform import load_engine
from agentform.runtime.engine import GenerateRequest

__all__ = ["main"]


def main() -> None:
    """`_engine_worker.py WEIGHTS CONTEXT_TOKENS NUM_THREADS`: the cache's budget is that of so many tokens."""
    weights, context_tokens, num_threads = sys.argv[1:]
    engine: Any = load_engine(
        "smollm2-135m",
        weights=weights,
        kv_budget_bytes=int(context_tokens) * _BYTES_PER_TOKEN,
        num_threads=int(num_threads),
        reuse_prefixes=False,
    )
    anyio.run(_serve, engine)
    engine.close()


_BYTES_PER_TOKEN = 30 * 2 * 3 * 64 * 2
"""Layers, key and value, heads, their width, and bytes of bfloat16."""


async def _serve(engine: Any) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        answer = await _time(engine, tuple(asked["prompt_ids"]), asked["max_tokens"])
        print("ANSWER", json.dumps(answer), flush=True)


async def _time(engine: Any, prompt_ids: tuple[int, ...], max_tokens: int) -> dict[str, float]:
    """Prompt: until the first token is there; a token: what the caller waits between two, all included."""
    started, before = time.perf_counter(), time.process_time()
    arrived: list[float] = []
    async for chunk in engine.generate(GenerateRequest(prompt_ids=prompt_ids, max_tokens=max_tokens)):
        arrived += [time.perf_counter()] * len(chunk.token_ids)
    return {
        "prompt_s": arrived[0] - started,
        "token_s": (arrived[-1] - arrived[0]) / max(1, len(arrived) - 1),
        "cpu_s": time.process_time() - before,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


if __name__ == "__main__":
    main()
