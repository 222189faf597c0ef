"""`python -m benchmarks.attack.health PORT FILE`: asks `/health` as a load balancer does, anew each time, until killed.

One line per answer: when it was asked for, and the seconds that it took, `inf` where there was none.
"""

from __future__ import annotations

import http.client
import sys
import time
from pathlib import Path

__all__ = ["ask"]

_PAUSE_S = 0.05


def ask(port: int, *, patience_s: float = 30.0) -> float:
    """Seconds until the answer; infinite where there is none."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
    try:
        connection.request("GET", "/health")
        healthy = connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        healthy = False
    finally:
        connection.close()
    return time.perf_counter() - started if healthy else float("inf")


def main() -> None:
    """Until somebody ends it."""
    with Path(sys.argv[2]).open("a", encoding="ascii") as out:
        while True:
            started = time.time()
            out.write(f"{started} {ask(int(sys.argv[1]))}\n")
            out.flush()
            time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
