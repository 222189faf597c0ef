"""`python rehearsing.py PATH...`: compiles the grammar on its standard input; says that it begins, and what is wrong.

Started by `rehearsal.py`, to be killed where it takes too long; the system ends it too if nobody is left to do that.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from typing import Any

__all__ = ["main"]

_SHOWN = 4_000
_STACK_BYTES = 4 << 20
"""Half of what a thread of the caller's has: what fits here fits there."""


def main() -> None:
    """Read the question, compile, answer."""
    sys.path[:] = sys.argv[1:]
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer

    ask: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    limits = LLParserLimits(**ask["limits"], verbose_errors=False)
    tokenizer = LLTokenizer("byte")
    print("begun", flush=True)
    _limit(ask["cpu_s"], ask["memory_bytes"])
    matcher = LLMatcher(tokenizer, ask["source"], log_level=0, limits=limits)
    json.dump(matcher.get_error()[:_SHOWN] if matcher.is_error() else "", sys.stdout)


def _limit(cpu_s: float, memory_bytes: int) -> None:
    """So much more than was used up to here. Where the system has no such limits, the caller's clock is left."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = math.ceil(time.process_time() + cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


if __name__ == "__main__":
    threading.stack_size(_STACK_BYTES)
    working = threading.Thread(target=main)
    working.start()
    working.join()
