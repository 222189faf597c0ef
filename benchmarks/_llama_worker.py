"""llama.cpp in a process of its own, for `benchmarks.decode`; needs nothing but xllamacpp.

Reads a JSON object a line, `{"prompt_ids": [...], "max_tokens": n}`, and answers with one: seconds for the prompt and
for each further token, as llama.cpp times them itself, seconds of processor time for the whole request, and the peak
of this process's memory in bytes.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any


def main() -> None:
    """`_llama_worker.py GGUF CONTEXT_TOKENS NUM_THREADS`."""
    import xllamacpp  # pyright: ignore[reportMissingImports]

    gguf, context_tokens, num_threads = sys.argv[1:]
    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path = gguf
    parameters.n_ctx, parameters.n_parallel = int(context_tokens), 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = int(num_threads)
    server: Any = xllamacpp.Server(parameters)
    for line in sys.stdin:
        asked = json.loads(line)
        before = time.process_time()
        answer: Any = server.handle_completions(
            {
                "prompt": asked["prompt_ids"],
                "n_predict": asked["max_tokens"],
                "temperature": 0,
                "ignore_eos": True,
                "cache_prompt": False,
            }
        )
        timings = answer["timings"]
        answer = {
            "prompt_s": timings["prompt_ms"] / 1e3,
            "token_s": timings["predicted_per_token_ms"] / 1e3,
            "cpu_s": time.process_time() - before,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        print("ANSWER", json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
