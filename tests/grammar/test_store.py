"""What is kept on disk, and how much a grammar may cost."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from agentform.errors import GrammarError, Relaxation
from agentform.grammar import compile as compiling
from agentform.grammar.compile import Compiler
from agentform.grammar.limits import CompileLimits
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.store import GrammarStore, Recipe, recipe_key
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.growth import growth
from tests.support.tiny_tokenizer import write_tiny_tokenizer

RECIPE = Recipe(text="start: x", relaxed=(Relaxation(pointer="/a", what="not: left to validation"),))
HARD = GrammarSpec(
    kind="json_schema", text='{"type": "object", "patternProperties": {"a": {"type": "integer"}, "b": {"minimum": 3}}}'
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def vocabulary(tokenizer):
    return Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids)


def test_what_is_put_is_found_by_another_store(tmp_path):
    GrammarStore(tmp_path / "new").put("k", RECIPE)
    assert GrammarStore(tmp_path / "new").get("k") == RECIPE
    assert GrammarStore(tmp_path / "new").get("other") is None
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["k.json"]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-3], lambda data: data.replace(b"start", b"stort"), lambda _: b""]
)
def test_a_damaged_file_is_a_miss(tmp_path, damage):
    store = GrammarStore(tmp_path)
    store.put("k", RECIPE)
    file = tmp_path / "k.json"
    file.write_bytes(damage(file.read_bytes()))
    assert store.get("k") is None
    store.put("k", RECIPE)
    assert store.get("k") == RECIPE


def test_the_oldest_files_go_when_there_are_too_many_bytes(tmp_path):
    store = GrammarStore(tmp_path, max_bytes=500)
    for at, key in enumerate("abcd"):
        store.put(key, RECIPE)
        path = tmp_path / f"{key}.json"
        if path.exists():
            time.sleep(0.01 * (at == 0))
    assert store.get("d") == RECIPE
    assert store.get("a") is None
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 500


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    store = GrammarStore(tmp_path / "file" / "below")
    store.put("k", RECIPE)
    assert store.get("k") is None


def test_the_key_changes_with_all_that_matters(vocabulary):
    other = GrammarSpec(kind="json_schema", text=HARD.text, follow=",")
    keys = {
        recipe_key("llguidance", HARD, vocabulary.digest),
        recipe_key("xgrammar", HARD, vocabulary.digest),
        recipe_key("llguidance", other, vocabulary.digest),
        recipe_key("llguidance", HARD, "another"),
    }
    assert len(keys) == 4


def test_the_digest_covers_tokens_size_and_ends(tokenizer, vocabulary):
    size = tokenizer.vocabulary_size
    same = Vocabulary(tokenizer.tokenizer_json, size=size, eos_ids=tokenizer.eos_ids)
    longer = Vocabulary(tokenizer.tokenizer_json, size=size + 1, eos_ids=tokenizer.eos_ids)
    ends = Vocabulary(tokenizer.tokenizer_json, size=size, eos_ids={5})
    assert same.digest == vocabulary.digest
    assert len({vocabulary.digest, longer.digest, ends.digest}) == 3


def test_what_was_searched_for_is_not_searched_again(tmp_path, vocabulary, monkeypatch):
    monkeypatch.setattr(compiling, "_WORTH_STORING_S", 0.0)
    first = Compiler(vocabulary, store=GrammarStore(tmp_path)).compile(HARD)
    monkeypatch.setattr(compiling, "prepare", lambda *_, **__: pytest.fail("searched again"))
    second = Compiler(vocabulary, store=GrammarStore(tmp_path)).compile(HARD)
    assert second.relaxed == first.relaxed != ()
    assert (second.matcher().allowed() == first.matcher().allowed()).all()


def test_a_stored_text_that_does_not_compile_is_passed_over(tmp_path, vocabulary):
    store = GrammarStore(tmp_path)
    store.put(recipe_key("llguidance", HARD, vocabulary.digest), RECIPE)
    assert Compiler(vocabulary, store=store).compile(HARD).relaxed != RECIPE.relaxed


def test_xgrammar_grammars_are_read_back(tmp_path, vocabulary, tokenizer):
    pytest.importorskip("xgrammar")
    from agentform.grammar.xgrammar import XGrammarCompiler

    first = XGrammarCompiler(vocabulary, store=GrammarStore(tmp_path)).compile(HARD)
    compiler = XGrammarCompiler(vocabulary, store=GrammarStore(tmp_path))
    compiler._native = None  # compiling anew would fail
    second = compiler.compile(HARD)
    assert second.relaxed == first.relaxed
    matcher = second.matcher()
    matcher.accept(*tokenizer.encode('{"x": 1}'))
    assert matcher.is_complete()


def test_a_text_over_the_limit_is_refused_unread(vocabulary):
    compiler = Compiler(vocabulary, limits=CompileLimits(text_bytes=100))
    with pytest.raises(GrammarError, match="over the limit of 100"):
        compiler.compile(GrammarSpec(kind="json_schema", text='"' + "x" * 100))


def test_out_of_time_the_type_alone_is_enforced(vocabulary):
    compiled = Compiler(vocabulary, limits=CompileLimits(compile_s=0.0)).compile(HARD)
    assert compiled.relaxed[-1].what == "everything but the type: left to validation"


def test_a_grammar_over_the_limit_of_symbols_is_weakened(vocabulary):
    schema = {"type": "object", "properties": {f"p{at}": {"enum": ["a", at]} for at in range(500)}}
    spec = GrammarSpec(kind="json_schema", text=json.dumps(schema))
    assert Compiler(vocabulary).compile(spec).relaxed == ()
    assert Compiler(vocabulary, limits=CompileLimits(grammar_symbols=300)).compile(spec).relaxed != ()


@pytest.mark.parametrize("shape", ["value", "list"])
def test_fault_14_big_enums_compile_in_time_that_grows_as_they_do(vocabulary, tokenizer, shape):
    assert growth(lambda num_values: write_enum(vocabulary, tokenizer, num_values, shape), 2_500, times=8) < 24


def write_enum(vocabulary, tokenizer, num_values, shape):
    values = [f"option {at} of a long list, {at * at % 9973}" for at in range(num_values)]
    schema = {"enum": values} if shape == "value" else {"type": "array", "items": {"enum": values}}
    matcher = Compiler(vocabulary).compile(GrammarSpec(kind="json_schema", text=json.dumps(schema))).matcher()
    text = json.dumps(values[-1] if shape == "value" else [values[0], values[-1]])
    for token in tokenizer.encode(text):
        assert matcher.allowed()[token]
        matcher.accept(token)
    assert matcher.is_complete()


def test_what_is_kept_for_one_owner_is_not_found_by_another():
    keys = {recipe_key("llguidance", replace(HARD, owner=owner), "vocabulary") for owner in ("", "a", "b")}
    assert len(keys) == 3
