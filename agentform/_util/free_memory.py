"""Memory that a process may still take on its host: what is free, and what its container leaves."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

__all__ = ["host_free_bytes"]

_AVAILABLE = re.compile(r"MemAvailable:\s*(\d+) kB")


def host_free_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that can be had without swapping, within the limit of a container; `None` where the system does not tell.

    `root` is where the system's own files are looked for.
    """
    known = [each for each in (_available(root), _left_of_group(root)) if each is not None]
    return min(known) if known else _free_pages()


def _available(root: Path) -> int | None:
    """What Linux says it can give, caches of files included."""
    with contextlib.suppress(OSError):
        found = _AVAILABLE.search((root / "proc/meminfo").read_text(encoding="ascii"))
        return int(found[1]) * 1024 if found else None
    return None


def _left_of_group(root: Path) -> int | None:
    """What the control group leaves, in either of its versions; `None` without a limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            most, now = (int((root / "sys/fs/cgroup" / name).read_text(encoding="ascii")) for name in (limit, used))
            return max(0, most - now)
    return None


def _free_pages() -> int | None:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not told on this platform
        return None
