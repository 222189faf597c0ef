"""`python -m benchmarks NAME [--data DIR] [--quick]`: runs one benchmark and writes results/NAME.json."""

from __future__ import annotations

from benchmarks.common.command import main
from benchmarks.common.harness import RESULTS

__all__ = ["BENCHMARKS"]

BENCHMARKS = {
    "attack": "benchmarks.attack",
    "bfcl": "benchmarks.bfcl",
    "clients": "benchmarks.clients",
    "coherence": "benchmarks.coherence",
    "conversation": "benchmarks.cache.conversation",
    "couplings": "benchmarks.couplings",
    "desk": "benchmarks.desk",
    "forms": "benchmarks.forms",
    "gpu": "benchmarks.gpu",
    "kernels": "benchmarks.kernels",
    "own_language": "benchmarks.own_language",
    "peers": "benchmarks.peers",
    "rows": "benchmarks.rows",
    "scale_out": "benchmarks.sglang.scale_out",
    "schemas": "benchmarks.schemas",
    "sglang_pool": "benchmarks.sglang.pool",
    "templates": "benchmarks.templates",
    "throughput": "benchmarks.cache.throughput",
    "traces": "benchmarks.cache.traces",
    "warm_cold": "benchmarks.cache.warm_cold",
}
"""By name, the module that runs it."""

if __name__ == "__main__":
    main("python -m benchmarks", BENCHMARKS, results=RESULTS)
