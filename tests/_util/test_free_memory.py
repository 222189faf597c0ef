"""A process may take what is free on its host, and no more than its container leaves."""

from __future__ import annotations

import pytest

from agentform._util.free_memory import host_free_bytes

GIB = 1 << 30


def system(root, *, available=None, files=()):
    if available is not None:
        (root / "proc").mkdir()
        (root / "proc/meminfo").write_text(f"MemFree: 1 kB\nMemAvailable:   {available >> 10} kB\n", encoding="ascii")
    for name, text in files:
        place = root / "sys/fs/cgroup" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="ascii")
    return root


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ((), 8 * GIB),
        ((("memory.max", "max\n"), ("memory.current", "5\n")), 8 * GIB),
        ((("memory.max", f"{2 * GIB}\n"), ("memory.current", f"{GIB}\n")), GIB),
        ((("memory.max", f"{GIB}\n"), ("memory.current", f"{2 * GIB}\n")), 0),
        (
            (("memory/memory.limit_in_bytes", str(3 * GIB)), ("memory/memory.usage_in_bytes", str(GIB))),
            2 * GIB,
        ),
    ],
)
def test_a_container_leaves_less_than_the_host_has(tmp_path, files, free):
    assert host_free_bytes(system(tmp_path, available=8 * GIB, files=files)) == free


def test_where_the_files_are_not_there_the_library_is_asked(tmp_path):
    free = host_free_bytes(tmp_path)
    assert free is None or free > 0
