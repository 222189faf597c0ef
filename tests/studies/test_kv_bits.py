from __future__ import annotations

from rich.console import Console

from benchmarks.common.harness import Context
from studies import kv_bits


def test_needles_are_looked_for_as_computed_and_in_8_bits(monkeypatch, tmp_path):
    monkeypatch.setattr(kv_bits, "_NEEDLE_TOKENS", 256)
    context = Context(name="kv_bits", data=None, quick=True, console=Console(quiet=True), results=tmp_path)
    found = kv_bits._recall(context, 3)
    assert (found["asked"], found["found"]) == (3, [3, 3])
