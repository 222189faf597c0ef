from __future__ import annotations

import json
import threading

import pytest

from agentform.grammar.attempt import OutOfTime, attempt
from agentform.grammar.compile import Compiler
from agentform.grammar.limits import CompileLimits
from agentform.grammar.loosen import RUNGS
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import write_tiny_tokenizer


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))
    return Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids)


def test_what_ends_in_time_gives_its_result():
    assert attempt(lambda: 7, 60.0) == 7


def test_what_fails_fails_here():
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 // 0, 60.0)


def test_what_does_not_end_in_time_is_left_alone():
    may_end, ended = threading.Event(), threading.Event()

    def work():
        may_end.wait(60)
        ended.set()

    try:
        with pytest.raises(OutOfTime):
            attempt(work, 0.0)
        assert not ended.is_set()
    finally:
        may_end.set()
    assert ended.wait(60)


def wide(levels, width=6):
    if not levels:
        return {"type": "string", "pattern": "^[a-z]{3,9}$"}
    return {"type": "object", "properties": {f"p{levels}_{at}": wide(levels - 1, width) for at in range(width)}}


def test_a_schema_that_takes_too_long_keeps_its_upper_levels(vocabulary, monkeypatch):
    monkeypatch.setattr("agentform.grammar.compile_trial.attempt", Once())
    spec = GrammarSpec(kind="json_schema", text=json.dumps(wide(4)))
    compiled = Compiler(vocabulary).compile(spec)
    [relaxed] = compiled.relaxed
    assert "deeper than three levels" in relaxed.what
    assert "takes too long" in relaxed.what
    assert '"p2_0"' in compiled.source
    assert '"p1_0"' not in compiled.source


class Once:
    """The first attempt takes too long."""

    def __init__(self):
        self._is_first = True

    def __call__(self, work, cpu_s):
        if self._is_first:
            self._is_first = False
            raise OutOfTime
        return work()


def test_the_upper_levels_of_definitions_that_use_one_another_are_bounded():
    node = {"type": "object", "properties": {f"p{at}": {"$ref": "#/$defs/node"} for at in range(200)}}
    shallow = RUNGS[-2].loosen({"$ref": "#/$defs/node", "$defs": {"node": node}})
    assert len(json.dumps(shallow)) < 1_000_000
    assert set(shallow["properties"]) == set(node["properties"])


def test_the_grammars_that_are_kept_are_bounded_by_their_size(vocabulary):
    compiler = Compiler(vocabulary, limits=CompileLimits(kept_bytes=3_000))
    specs = [GrammarSpec(kind="json_schema", text=json.dumps({"enum": [f"{at}" * 900]})) for at in range(6)]
    for spec in specs:
        compiler.compile(spec)
    assert [compiler.cached(spec) is not None for spec in specs] == [False] * 3 + [True] * 3
