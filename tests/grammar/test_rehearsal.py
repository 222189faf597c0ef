from __future__ import annotations

import json
import os

import anyio
import pytest

from agentform._util.threads import Threads
from agentform.errors import GrammarError
from agentform.grammar import rehearsal
from agentform.grammar.attempt import OutOfTime
from agentform.grammar.compile import Compiler
from agentform.grammar.limits import CompileLimits
from agentform.grammar.rehearsal import may_be_hard, rehearse
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.store import GrammarStore
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import write_tiny_tokenizer
from tests.support.waiting import eventually

LIMITS = CompileLimits(compile_s=0.2)
TEXT = {"type": "string"}
PRODUCT = {**TEXT, "allOf": [{"pattern": f".*{letter}.*"} for letter in "abcdefghijklmnopqrstuvwxyz"]}
NESTED = {"pattern": "a", "anyOf": [{"pattern": "b", "anyOf": [{"pattern": "c", "anyOf": [{"pattern": "d"}, {}]}, {}]}]}


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))
    eos_ids = tokenizer.eos_ids
    return Compiler(
        Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=eos_ids), limits=LIMITS
    )


@pytest.mark.parametrize(
    "schema",
    [
        PRODUCT,
        NESTED,
        {"type": "object", "properties": {"a": {"type": "array", "items": PRODUCT}}},
        {"$defs": {"a": {**TEXT, "pattern": "a", "$ref": "#/$defs/b"}, "b": NESTED}, "$ref": "#/$defs/a"},
        {"type": "object", "patternProperties": {f"^{at}.*x$": TEXT for at in range(40)}},
        {"allOf": [{"type": "integer", "multipleOf": step} for step in (7, 11, 13, 17)]},
        {"type": "object", "allOf": [{"patternProperties": {f"{at}.*": TEXT}} for at in range(9)]},
    ],
)
def test_what_joins_many_expressions_may_be_hard(schema):
    assert may_be_hard(schema)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "object", "properties": {f"p{at}": {**TEXT, "pattern": f"^{at}.*$"} for at in range(99)}},
        {"anyOf": [{**TEXT, "pattern": f"^{at}.*$"} for at in range(99)]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {**TEXT, "format": "date"}}},
        {"allOf": [{"type": "object", "properties": {"a": {**TEXT, "pattern": "a"}}}, {"required": ["a"]}]},
    ],
)
def test_what_tools_usually_say_is_not(schema):
    assert not may_be_hard(schema)


def test_a_product_of_expressions_that_never_ends_is_left_to_validation(compiler):
    compiled = compiler.compile(GrammarSpec(kind="json_schema", text=json.dumps(PRODUCT)))
    [relaxed] = compiled.relaxed
    assert "takes too long" in relaxed.what
    assert '"type": "string"' in compiled.source


def test_definitions_that_lead_from_one_to_the_next_do_not_end_the_process(compiler):
    steps = {f"A{at}": {"anyOf": [{"$ref": f"#/$defs/A{at + 1}"}, {"type": "null"}]} for at in range(4000)}
    schema = {"$ref": "#/$defs/A0", "$defs": {**steps, "A4000": TEXT}}
    assert compiler.compile(GrammarSpec(kind="json_schema", text=json.dumps(schema))).relaxed


def test_what_is_hard_and_ends_is_enforced(compiler, monkeypatch):
    monkeypatch.setattr(rehearsal, "_MOST_WALL", 10_000)
    few = {**TEXT, "allOf": [{"pattern": pattern} for pattern in ("^a", "b", "c$", "^[abc]*$")]}
    assert may_be_hard(few)
    assert compiler.compile(GrammarSpec(kind="json_schema", text=json.dumps(few))).relaxed == ()


def test_a_step_of_too_many_remainders_is_left_to_validation(compiler):
    spec = GrammarSpec(kind="json_schema", text=json.dumps({"type": "integer", "multipleOf": 99_991}))
    assert "remainders" in compiler.compile(spec).relaxed[0].what


def test_a_rehearsal_that_is_killed_by_the_system_is_out_of_time(monkeypatch, tmp_path):
    monkeypatch.setattr(rehearsal, "_SCRIPT", written(tmp_path, "print('begun', flush=True); raise MemoryError"))
    with pytest.raises(OutOfTime):
        rehearse("start: /a/", limits={}, cpu_s=60)


@pytest.mark.parametrize("python", ["/no/such/python", None])
def test_what_was_weakened_because_no_process_began_is_not_kept(compiler, monkeypatch, tmp_path, python):
    spec = GrammarSpec(kind="json_schema", text=json.dumps({**PRODUCT, "$comment": str(python)}))
    store = GrammarStore(tmp_path / "store")
    stored = Compiler(compiler._vocabulary, limits=LIMITS, store=store)
    with monkeypatch.context() as patch:
        patch.setattr(rehearsal, "_SCRIPT", written(tmp_path, "raise ImportError"))
        if python is not None:
            patch.setattr(rehearsal.sys, "executable", python)
        assert stored.compile(spec).relaxed
    assert stored.cached(spec) is None
    assert not list((tmp_path / "store").rglob("*.*"))


@pytest.mark.anyio
async def test_a_rehearsal_ends_when_its_caller_is_gone(compiler, monkeypatch, tmp_path):
    told = tmp_path / "pid"
    script = f"import os, pathlib, time; pathlib.Path({str(told)!r}).write_text(f'{{os.getpid()}} '); time.sleep(600)"
    monkeypatch.setattr(rehearsal, "_SCRIPT", written(tmp_path, script))
    monkeypatch.setattr(rehearsal, "_MOST_WALL", 10_000)
    spec, failed = GrammarSpec(kind="json_schema", text=json.dumps({**PRODUCT, "$comment": "b"})), []

    def work():
        try:
            compiler.compile(spec)
        except GrammarError as error:
            failed.append(str(error))

    async with anyio.create_task_group() as group:
        group.start_soon(Threads("rehearsed", 1).run, work)
        await eventually(lambda: told.exists() and told.read_text().endswith(" "))
        group.cancel_scope.cancel()
    await eventually(lambda: bool(failed))
    assert "nobody waits" in failed[0]
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def written(folder, text):
    path = folder / "script.py"
    path.write_text(text)
    return path
