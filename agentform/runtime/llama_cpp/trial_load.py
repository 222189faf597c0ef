"""`python trial_load.py GGUF MEMORY_BYTES PATH...`: loads a file and computes a token, or ends over it.

Started by `first_load.py`. What is refused with a reason is no harm: whoever loads it next is told so.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Load, read a few tokens, write one."""
    sys.path[:] = sys.argv[3:]
    import anyio

    from agentform.errors import AgentformError
    from agentform.runtime.engine import GenerateRequest, Sampling
    from agentform.runtime.llama_cpp.engine import LlamaCppEngine

    print("begun", flush=True)
    _limit(int(sys.argv[2]))

    async def load() -> None:
        engine = LlamaCppEngine(sys.argv[1], gpu_layers=0, num_threads=1, try_first=False)
        try:
            ids = engine.tokenizer.encode("a b") or (0,)
            async for _ in engine.generate(GenerateRequest(prompt_ids=ids, max_tokens=1, sampling=Sampling())):
                pass
        finally:
            await engine.aclose()

    try:
        anyio.run(load)
    except AgentformError as error:
        print(error, file=sys.stderr)


def _limit(memory_bytes: int) -> None:
    """No file of its memory where it ends, and no more memory than this. Where there are no such limits, the clock."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


if __name__ == "__main__":
    main()
