"""Which run it is, and what is asked of agentform where all run one GGUF file."""

from __future__ import annotations

import pytest

from benchmarks.peers.lines import Line, Share
from benchmarks.peers.report import goals
from benchmarks.peers.roster import OURS
from benchmarks.peers.same_gguf import is_usual, model_of, run_name, with_goals
from benchmarks.peers.task import Model


def test_a_run_on_the_gguf_file_leaves_the_usual_results_alone():
    usual = Model(folder="x", gguf="x", threads=2)
    other = Model(folder="x", gguf="x", threads=1, engine="llama_cpp")
    assert is_usual(usual)
    assert run_name("peers", usual) == "peers"
    assert run_name("peers", other) == "peers_llama_cpp_smollm2-135m_1"


def test_there_the_goals_are_ratios_to_llama_cpp():
    figures = {OURS: {0: 20.0}, "llama_cpp": {0: 19.0}, "guidance": {0: 1.0}}
    text = Line(letter="d", what="free text, one token", unit="ms", figures=figures, bar=0.5, limit=3.0)
    fields = Line(letter="a", what="3 closed fields, warm 500-token prompt", unit="s", figures=figures, bar=3.0)
    share = Share(letter="h", what="closed forms valid", figures={OURS: {0: 1.0}})
    [said] = goals(with_goals([text, fields, share]))
    assert said.startswith("reached: free text, one token: llama_cpp takes 0.95 times")


def test_torch_is_refused_for_what_comes_as_a_gguf_file_only(monkeypatch):
    monkeypatch.setattr("benchmarks.peers.same_gguf.catalogue_gguf", lambda entry: entry.gguf)
    with pytest.raises(SystemExit, match="GGUF file only"):
        model_of({"model": "qwen2.5-coder-0.5b", "engine": "torch", "threads": 1})
