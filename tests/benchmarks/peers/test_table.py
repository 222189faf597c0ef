from __future__ import annotations

import pytest

from benchmarks.common.bootstrap import gap, ratio
from benchmarks.peers import document as module
from benchmarks.peers.benchmark import merged
from benchmarks.peers.document import render
from benchmarks.peers.lines import Line, Share, lines_of
from benchmarks.peers.plots import draw
from benchmarks.peers.report import as_data, goals, markdown, summary
from benchmarks.peers.roster import read_roster

ROSTER = {name: peer for name, peer in read_roster().items() if name in ("agentform", "llama_cpp", "guidance")}


def line(**more):
    figures = {
        "agentform": {0: 1.0, 1: 2.0, 2: 4.0},
        "llama_cpp": {0: 3.0, 1: 6.0, 2: 12.0},
        "guidance": {0: 20.0, 1: 10.0},
    }
    return Line(**{"letter": "a", "what": "work", "unit": "s", "figures": figures, **more})


def test_a_ratio_is_taken_within_the_round():
    found = line().ratio("llama_cpp")
    assert found is not None
    assert (found.median, found.low, found.high, found.rounds) == (3.0, 3.0, 3.0, 3)
    fewer = line().ratio("guidance")
    assert fewer is not None
    assert fewer.rounds == 2
    assert (fewer.median, fewer.low, fewer.high) == (12.5, 5.0, 20.0)


def test_without_a_common_round_there_is_no_ratio():
    assert ratio({1: 2.0}, {0: 1.0}) is None
    assert gap({}, {0: 1.0}) is None


def test_a_gap_is_in_points_over_common_items():
    found = gap({0: 1.0, 1: 0.0, 2: 1.0, 3: 1.0}, {0: 1.0, 1: 1.0, 2: 0.0, 3: 0.0, 9: 0.0})
    assert found is not None
    assert (found.mean, found.items) == (25.0, 4)
    assert found.low < 0 < found.high


def row(work, case, turn, peer, **more):
    return {"work": work, "case": case, "round": turn, "peer": peer, **more}


def test_lines_are_made_of_rows():
    rows = [
        row("closed", "warm 6", 0, "agentform", seconds=0.5, valid=True),
        row("closed", "warm 12", 0, "agentform", seconds=0.6, valid=True),
        row("decode", "1", 0, "agentform", seconds=0.1),
        row("decode", "96", 0, "agentform", seconds=1.0, completion_tokens=91),
        row("conversation", "call", 0, "agentform", seconds=9.0, cached_tokens=0, prompt_tokens=50),
        row("conversation", "answer", 0, "agentform", seconds=1.0),
        row("conversation", "call", 1, "agentform", seconds=3.0, cached_tokens=90, prompt_tokens=100),
        row("conversation", "answer", 1, "agentform", seconds=1.0),
        row("conversation", "call", 2, "agentform", seconds=99.0, cached_tokens=90, prompt_tokens=100),
        row("prefill", "512", 0, "agentform", seconds=1.03, length=515),
        row("memory", "peak", 0, "agentform", bytes=3 << 20),
        row("memory", "four_bit", 0, "agentform", bytes=2 << 20),
    ]
    found = {made.what: made.value("agentform") for made in lines_of(rows, [])}
    assert found == {
        "6 closed fields, warm 500-token prompt": 0.5,
        "12 closed fields over 6, warm": pytest.approx(1.2),
        "free text, one token": pytest.approx(10.0),
        "a turn of a conversation": 7.0,
        "of a turn's prompt found in the cache": pytest.approx(90.0),
        "reading a prompt of 512 tokens, per token": pytest.approx(2.0),
        "memory peak": 3.0,
        "memory peak, 4-bit weights alone": 2.0,
        "closed forms valid": 100.0,
    }


def test_what_a_peer_failed_at_is_neither_valid_nor_right():
    rows = [
        row("calls", "known", turn, peer, seconds=1.0, valid=True, right=turn == 0)
        for turn in range(2)
        for peer in ("agentform", "guidance")
    ]
    faults = [row("calls", "known", turn, "guidance", reason="no") for turn in (2, 3)]
    shares = {made.what: made for made in lines_of(rows, faults) if isinstance(made, Share)}
    assert shares["mixed calls valid"].value("agentform") == 100
    assert shares["mixed calls valid"].value("guidance") == 50
    assert shares["mixed calls right (BFCL's rule)"].value("guidance") == 25


def test_goals_are_about_the_nearest_peer_or_the_one_that_is_named():
    assert goals([line(bar=3.0)]) == ["reached: work: llama_cpp takes 3.00 times what agentform takes, goal 3"]
    assert goals([line(bar=3.5)])[0].startswith("missed")
    assert goals([line(bar=5.0, against="guidance")])[0].startswith("reached: work: guidance takes 12.50 times")
    assert goals([line(limit=2.0)]) == ["reached: work: 2 s, at most 2"]
    assert goals([line(limit=1.9)])[0].startswith("missed")
    assert goals([line()]) == []


def test_the_table_has_a_cell_per_peer_and_a_reason_per_skipped_one():
    both = line(figures={name: line().figures[name] for name in ("agentform", "llama_cpp")})
    table = markdown([both], ROSTER, {"guidance": "pip install torch … failed: no disk"})
    head, _, cells, _, reason = table.splitlines()
    assert head == "|  |  | agentform | llama.cpp |"
    assert cells == "| a | work, s | 2 | 6 · 3× [3, 3] |"
    assert reason == "- Skipped: guidance + transformers: pip install torch … failed: no disk"


def test_who_fell_out_later_keeps_what_was_measured():
    table = markdown([line()], ROSTER, {"guidance": "no answer within 300 s"})
    assert "| a | work, s | 2 | 6 · 3× [3, 3] | 15 · 12× [5, 20] |" in table


def test_a_share_shows_the_difference_in_points():
    share = Share(letter="h", what="valid", figures={"agentform": {0: 1, 1: 1}, "llama_cpp": {0: 1, 1: 0}})
    assert "| h | valid, % | 100 | 50 · -50 [-100, +0] |" in markdown([share], ROSTER, {})
    assert as_data(share)["peers"]["llama_cpp"]["difference"]["mean"] == -50


def test_the_summary_names_the_nearest_peer():
    assert summary([line(bar=2.0), line()], ROSTER).splitlines()[2:] == ["| work, s | 2 | llama.cpp: 6 | 3 [3, 3] |"]


def test_a_section_replaces_what_stands_between_the_marks():
    text = "a\n<!-- peers: begin -->\nold\n<!-- peers: end -->\nb\n"
    assert render(text, "new") == "a\n<!-- peers: begin -->\n\nnew\n\n<!-- peers: end -->\nb\n"
    assert render(render(text, "newer"), "new") == render(text, "new")
    assert render("no marks", "new") == "no marks"


def test_works_that_were_not_done_again_stay():
    before = {"rows": [row("closed", "", 0, "a"), row("decode", "", 0, "a")], "faults": [row("calls", "", 0, "a")]}
    before |= {"versions": {"a": "1", "b": "1"}, "settings": {"a": "fast"}, "threads": {"closed": 1, "decode": 1}}
    now = {"rows": [row("decode", "", 1, "b")], "faults": [], "threads": {"decode": 2}}
    now |= {"versions": {"b": "2"}, "settings": {}}
    assert merged(before, now) == {
        "rows": [row("closed", "", 0, "a"), row("decode", "", 1, "b")],
        "faults": [row("calls", "", 0, "a")],
        "threads": {"closed": 1, "decode": 2},
        "versions": {"a": "1", "b": "2"},
        "settings": {"a": "fast"},
    }


def test_there_is_a_picture_per_letter(tmp_path):
    pytest.importorskip("matplotlib")
    drawn = draw([line(), line(what="more"), line(letter="d")], ROSTER, tmp_path)
    assert [path.name for path in drawn] == ["peers_a.png", "peers_d.png"]
    assert all(path.stat().st_size > 1000 for path in drawn)


def test_the_documents_are_written_from_the_result_file(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    for name in ("DOCUMENT", "README"):
        monkeypatch.setattr(module, name, tmp_path / name)
        (tmp_path / name).write_text("<!-- peers: begin --><!-- peers: end -->")
    monkeypatch.setattr(module, "PLOTS", tmp_path)
    rows = [
        row("closed", "warm 9", turn, peer, seconds=seconds, valid=True)
        for turn in range(2)
        for peer, seconds in (("agentform", 0.1), ("llama_cpp", 1.2))
    ]
    figures = {
        "rows": rows,
        "faults": [row("calls", "new", 0, "guidance", reason="no")],
        "skipped": {"sglang": "no disk"},
        "versions": {"agentform": {"agentform": "1"}, "llama_cpp": {"xllamacpp": "2"}},
        "threads": {"closed": 2, "decode": 1},
    }
    machine = {"cpu": "Abacus", "cores": 2}
    module.document({"when": "2026-01-02T03:04", "commit": "c" * 40, "machine": machine, "figures": figures})
    section = (tmp_path / "DOCUMENT").read_text()
    assert (
        "Run of 2026-01-02 at commit cccccccccc on Abacus, 2 cores, threads for each: 1 in decode; 2 in closed."
        in section
    )
    assert "| a | 9 closed fields, warm 500-token prompt, s | 0.1 | 1.2 · 12× [12, 12] |" in section
    assert "- reached: 9 closed fields" in section
    assert "- Skipped: SGLang, CPU, xgrammar: no disk" in section
    assert "guidance at calls: 1." in section
    assert "![peers_a](plots/peers_a.png)" in section
    assert (
        "| 9 closed fields, warm 500-token prompt, s | 0.1 | llama.cpp: 1.2 | 12 [12, 12] |"
        in (tmp_path / "README").read_text()
    )
