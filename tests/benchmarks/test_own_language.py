from __future__ import annotations

from benchmarks.own_language import figures_of


def row(mode, *, tool, right, call=True):
    return {"id": "1", "mode": mode, "call": {"name": "x"} if call else None, "tool": tool, "right": right}


def test_figures_count_calls_tools_and_arguments_by_mode():
    rows = [
        row("own", tool=True, right=True),
        row("own", tool=True, right=False),
        row("default", tool=False, right=False, call=False),
    ]
    assert figures_of(rows) == {
        "own": {"questions": 2, "call": 2, "tool": 2, "right": 1},
        "default": {"questions": 1, "call": 0, "tool": 0, "right": 0},
    }
