"""Loops: found where a text repeats itself to its end, and only there; the value is then decided again with a bound."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agentform.decoding.limits import Limits
from agentform.errors import ArgumentsTruncated, GrammarError
from agentform.forms.fill import fill
from agentform.forms.repetition import find_loop, find_overflow, find_repeated_key
from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.engine import GenerateRequest
from agentform.runtime.scripted.engine import ScriptedEngine
from agentform.runtime.scripted.script import Fill
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema.dependencies import DependsOn
from agentform.schema.json_text import dumps
from agentform.schema.tighten import narrowed, with_keys
from tests.support.tiny_tokenizer import write_tiny_tokenizer

ROUTES = '["bank", "check", "poll", "check", ' + '"bank", "check", "poll", "poll", ' * 3 + '"bank", "ch'


@pytest.mark.parametrize(
    ("written", "steps", "kind", "bound"),
    [
        (" [-1, 1, 1, 1, 1, 1, 1, 1, 1", (), "array", {"maxItems": 2}),
        ('["a b", "a b", "a b", "a b", "a', (), "array", {"maxItems": 1}),
        (ROUTES, (), "array", {"maxItems": 3}),
        ('"palm_bay_palm_land_palm_land_palm_land_pa', (), "string", {"maxLength": len("palm_bay_palm_land")}),
        ('"x' + "\\n" * 20 + "\\", (), "string", {"maxLength": 2}),
        ('"' + "\\ud83d\\ude00" * 9 + "\\ud8", (), "string", {"maxLength": 1}),
        ('{"a": 1, "b ]": [true, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, ', (("a", "b ]"), 1), "array", {"maxItems": 2}),
        ('[{"x": "y", "t": "' + "ab" * 20, (0, ("x", "t")), "string", {"maxLength": 2}),
        ('[{"x": 1}, {"x": 2}, {"x": 2}, {"x": 2}, {"x": 2}, {"x', (), "array", {"maxItems": 2}),
        ("[" + "[0, 0, 0, 0, 0, 0], " * 4 + "[0, 0, 0, 0", (), "array", {"maxItems": 1}),
        ('{"n": 1' + "0" * 30, (("n",),), "number", {"minimum": -(2**53), "maximum": 2**53, "multipleOf": 1e-6}),
    ],
)
def test_a_loop_is_found_where_it_is_and_keeps_what_was_said_once(written, steps, kind, bound):
    found = find_loop(written)
    assert (found.steps, found.kind, found.bound) == (steps, kind, bound)


@pytest.mark.parametrize(
    "written",
    [
        "",
        '"The company sells brands such as Fanta, Sprite, Dasani, Simply, Powerade, and',
        "[1, 1, 1, 1, 1, 1, 1, 1, 5",  # what comes now is something else
        "[1, 1, 1, 1, 1, 1, 1, 1]",  # complete, and only what follows it is missing
        '{"a": [1, 1, 1, 1, 1, 1, 1, 1], "b": "',
        "[0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, ",  # only seen items, yet no period
        "[[0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0",  # less than half of it
        '"# A title\\n\\nSome words about it.\\n\\n| a | b |\\n|---------------',
        '["red", "green", "blue", "red", "gr',  # once is no loop
        "[7, 7, 7, 7",  # too little to tell
        '{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaa',  # a key
        "3.14159265358979323846264338327950288419716939937510",
        "0.1234567890",
    ],
)
def test_what_only_looks_like_a_loop_is_none(written):
    assert find_loop(written) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=9,
)
DISTINCT = st.one_of(st.integers(0, 99), st.text("abcdef", max_size=5), st.tuples(st.integers(0, 9)).map(list))


@given(items=st.lists(DISTINCT, unique_by=json.dumps), lead=st.text("abc", max_size=3), data=st.data())
def test_a_list_of_distinct_items_is_no_loop_wherever_it_is_cut(items, lead, data):
    text = dumps({lead: items})
    assert find_loop(text[: data.draw(st.integers(0, len(text)))]) is None


@given(text=st.lists(st.characters(codec="utf-8"), unique=True).map("".join), data=st.data())
def test_a_string_that_says_nothing_twice_is_no_loop_wherever_it_is_cut(text, data):
    written = data.draw(st.sampled_from([json.dumps(text, ensure_ascii=False), dumps([text]), dumps({"a": text})]))
    assert find_loop(written[: data.draw(st.integers(0, len(written)))]) is None


@given(value=JSON, data=st.data())
def test_a_complete_value_is_never_a_loop(value, data):
    text = dumps([value])
    assert find_loop(text) is None
    found = find_loop(text[: data.draw(st.integers(0, len(text)))])
    if found is not None:  # short values may repeat; then the bound is one that they break
        assert found.kind != "array" or found.bound["maxItems"] > 0


@given(
    before=st.lists(st.integers(0, 9), unique=True, max_size=2),
    period=st.lists(st.text("abc", min_size=4, max_size=9), unique=True, min_size=1, max_size=4),
    times=st.integers(4, 8),
    cut=st.integers(0, 5),
)
def test_a_period_that_comes_again_to_the_end_is_found(before, period, times, cut):
    text = json.dumps({"k": [*before, *period * times]})[: -3 - cut]
    found = find_loop(text)
    assert (found.steps, found.kind, found.bound) == ((("k",),), "array", {"maxItems": len(before) + len(period)})


@given(text=st.text('{}[],:"\\ u12ae-.', max_size=60))
def test_any_text_at_all_is_read_without_a_fault(text):
    find_loop(text)
    find_repeated_key(text)
    find_overflow(text)


@pytest.mark.parametrize("written", ['{"\\q": 1, "\\q": 1e999', '{"a": -, "b": 1e', "[1-2"])
def test_after_what_is_no_json_nothing_is_found(written):
    assert (find_loop(written), find_repeated_key(written), find_overflow(written)) == (None, None, None)


@pytest.fixture(scope="module")
def grammars(tmp_path_factory):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))
    vocabulary = Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids)
    return Compiler(vocabulary), {chr(byte): tokenizer.encode(chr(byte))[0] for byte in range(32, 127)}


def greedy(grammars, schema, wanted, max_tokens=80):
    """What a model writes that wants to write `wanted`, and ends where that is no longer legal; whether it did end."""
    compiler, tokens = grammars
    compiled = compiler.compile(GrammarSpec(kind="json_schema", text=dumps(schema)))
    matcher, written = compiled.matcher(), ""
    for _ in range(max_tokens):
        if forced := matcher.forced().token_ids:
            matcher.accept(*forced)
            written += b"".join(map(compiled.vocabulary.token_bytes, forced)).decode()
            continue
        following = wanted[len(written) :][:1] if wanted.startswith(written) else ""
        allowed = matcher.allowed()
        legal = [character for character in following + '"]}' if allowed[tokens[character]]]
        if matcher.is_complete() and following not in legal:
            return written, True
        matcher.accept(tokens[legal[0]])
        written += legal[0]
    return written, False


WORDS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "wanted", "value"),
    [
        (WORDS, '["a", ' + '"bc", ' * 30, ["a", "bc"]),
        ({"type": "string"}, '"pa' + "lm_" * 50, "palm_"),
        ({"type": "number"}, "1." + "0" * 99, 1.0),
        ({"type": "number"}, "0." + "3" * 99, 0.333333),
        ({"type": "integer"}, "-1" + "0" * 99, -(10**15)),
        (
            {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/$defs/w"}, {"type": "null"}]}},
            '{"x": ["y"], "z": ["a", ' + '"bc", ' * 30,
            {"x": ["y"], "z": ["a", "bc"]},
        ),
        (
            {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/w"}, {"minItems": 1}]}},
            '[["k", "l", "m"], ["a", ' + '"bc", ' * 30,
            [["k", "l", "m"], ["a", "bc"]],
        ),
        (True, '{"x": [1, ' + "2, " * 40, {"x": [1, 2]}),
    ],
)
def test_under_the_bound_a_greedy_model_says_the_same_once_and_ends(grammars, schema, wanted, value):
    schema = schema if schema is True else {**schema, "$defs": {"w": WORDS}}
    written, complete = greedy(grammars, schema, wanted)
    assert not complete
    loop = find_loop(written)
    again, complete = greedy(grammars, narrowed(schema, loop.steps, loop.kind, loop.bound), wanted)
    assert complete
    assert json.loads(again) == value


class Note(BaseModel):
    text: str
    tags: list[str]


class Deep(BaseModel):
    parts: dict[str, list[Annotated[str, Field(min_length=3)]]]


def written_schemas(engine: ScriptedEngine) -> list[Any]:
    return [json.loads(r.grammar.text) for r in engine.requests if isinstance(r, GenerateRequest) and r.grammar]


LIMITS = Limits(argument_tokens=60)
LOOP = ["a b", "c d"] + ["e f"] * 30


@pytest.mark.anyio
async def test_a_list_that_loops_is_written_again_with_a_bound():
    engine = ScriptedEngine([Fill("Hello", {"text": "Hi", "tags": LOOP}, repairs=[{"tags": LOOP[:3]}])])
    filled = await fill(engine, "Hello", Note, limits=LIMITS)
    assert filled.value == Note(text="Hi", tags=["a b", "c d", "e f"])
    assert [(e.pointer, e.how) for e in filled.evidence] == [("/text", "generated"), ("/tags", "repaired")]
    _, first, second = written_schemas(engine)
    assert second == {**first, "maxItems": 3}
    _, once, again = [r for r in engine.requests if isinstance(r, GenerateRequest)]
    assert once.prompt_ids == again.prompt_ids


@pytest.mark.anyio
async def test_a_string_that_loops_is_written_again_with_a_bound():
    text = "palm_bay" + "_palm_land" * 30
    engine = ScriptedEngine([Fill("Hello", {"text": text, "tags": []}, repairs=[{"text": "palm_bay_palm"}])])
    filled = await fill(engine, "Hello", Note, limits=LIMITS)
    assert filled.value.text == "palm_bay_palm"
    assert [filled[p].how for p in ("/text", "/tags")] == ["repaired", "generated"]
    assert written_schemas(engine)[1] == {"type": "string", "maxLength": len("palm_bay_palm_land")}


@pytest.mark.anyio
async def test_a_loop_deep_inside_a_free_leaf_is_bounded_there_and_nowhere_else():
    once = {"parts": {"a": ["one"], "b": ["two", *["three"] * 20]}}
    then = {"parts": {"a": ["one"], "b": ["two", "xyz" * 30]}}
    last = {"parts": {"a": ["one"], "b": ["two", "xyz"]}}
    engine = ScriptedEngine([Fill("Hello", once, repairs=[then, last])])
    filled = await fill(engine, "Hello", Deep, limits=LIMITS)
    assert filled.value.parts == last["parts"]
    assert filled["/parts"].how == "repaired"
    first, second, third = written_schemas(engine)
    plain = first["additionalProperties"]
    assert second == {**first, "properties": {"a": plain, "b": {**plain, "maxItems": 2}}}
    bounded = [plain["items"], {**plain["items"], "maxLength": 3}]
    assert third["properties"] == {"a": plain, "b": {**plain, "maxItems": 2, "prefixItems": bounded}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "string"}, "minItems": 4}, LOOP),
        ({"type": "string", "pattern": "^(ab)*$"}, "ab" * 99),
        ({"type": "string", "minLength": 50}, "ab" * 99),
        ({"type": "string"}, "".join(map(chr, range(0x4E00, 0x4E80)))),
        ({"type": "array", "items": {"type": "integer"}}, list(range(99))),
    ],
)
async def test_what_has_no_loop_or_no_room_for_a_bound_stays_a_truncation(schema, value):
    engine = ScriptedEngine([Fill("Hello", {"a": value}, repairs=[{"a": value[:2]}])])
    form = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    with pytest.raises(ArgumentsTruncated, match="'/a' was not complete after 60 tokens"):
        await fill(engine, "Hello", form, limits=LIMITS)
    assert len(written_schemas(engine)) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("repairs", [0, 1])
async def test_loops_are_bounded_as_often_as_there_are_repairs(repairs):
    looping = [{"tags": LOOP}, {"tags": ["x" * 99]}, {"tags": ["x"]}]
    engine = ScriptedEngine([Fill("Hello", {"text": "", "tags": LOOP}, repairs=looping[1:])])
    with pytest.raises(ArgumentsTruncated, match="'/tags'"):
        await fill(engine, "Hello", Note, limits=Limits(argument_tokens=60, repairs=repairs))
    assert len(written_schemas(engine)) == 2 + repairs


@pytest.mark.anyio
async def test_an_engine_that_does_not_keep_the_bound_is_asked_no_third_time():
    engine = ScriptedEngine([Fill("Hello", {"text": "", "tags": LOOP})])
    with pytest.raises(ArgumentsTruncated):
        await fill(engine, "Hello", Note, limits=Limits(argument_tokens=60, repairs=9))
    assert len(written_schemas(engine)) == 3


@pytest.mark.anyio
async def test_a_bound_that_leaves_nothing_to_write_is_the_truncation_that_it_was_for():
    class Strict(ScriptedEngine):
        async def generate(self, request):
            if len(self.requests) == 1:
                raise GrammarError("nothing is legal")
            async for chunk in super().generate(request):
                yield chunk

    engine = Strict([Fill("Hello", {"ratio": 10**99})])
    form = {"type": "object", "properties": {"ratio": {"type": "number"}}, "required": ["ratio"]}
    with pytest.raises(ArgumentsTruncated, match="'/ratio'") as caught:
        await fill(engine, "Hello", form, limits=LIMITS)
    assert isinstance(caught.value.__cause__, GrammarError)


class Trip(BaseModel):
    place: str
    far: Annotated[bool, DependsOn("place")]


@pytest.mark.anyio
async def test_a_leaf_that_others_depend_on_is_marked_too():
    engine = ScriptedEngine([Fill("Hello", {"place": "land_" * 30, "far": True}, repairs=[{"place": "land"}])])
    filled = await fill(engine, "Hello", Trip, limits=LIMITS)
    assert filled.value == Trip(place="land", far=True)
    assert [filled[p].how for p in ("/place", "/far")] == ["repaired", "scored"]


@pytest.mark.anyio
async def test_a_leaf_with_a_bound_that_is_kept_through_a_repair_of_another_stays_marked():
    class Stay(BaseModel):
        tags: list[str]
        nights: Annotated[int, Field(multiple_of=7, json_schema_extra={"not": {"const": 7}})]

    script = Fill("Hello", {"tags": LOOP, "nights": 7}, repairs=[{"tags": ["a b"], "nights": 14}])
    filled = await fill(ScriptedEngine([script]), "Hello", Stay, limits=LIMITS)
    assert filled.value == Stay(tags=["a b"], nights=14)
    assert [filled[p].how for p in ("/tags", "/nights")] == ["repaired", "repaired"]


@pytest.mark.parametrize(
    ("written", "steps", "keys"),
    [
        ('{"a": 1, "a": 2}', (), ("a",)),
        ('{"a": 1, "b": {"c": [1], "d": 2, "c": 3}, "x": 1}', (("a", "b"),), ("c", "d")),
        ('[{"a": 1}, {"b": "x", "b', (), None),
        ('[{"a": 1}, {"b": "x", "b"', (1,), ("b",)),
        ('{"a": {"a": 1}, "b": {"a": "a"}}', (), None),
        ('{"\\u0061": 1, "a": 2}', (), ("a",)),
    ],
)
def test_a_key_that_comes_twice_is_found_where_it_is(written, steps, keys):
    found = find_repeated_key(written)
    assert (found and (found.steps, found.keys)) == (keys and (steps, keys))


def test_a_number_beyond_floats_is_found_where_it_is():
    assert find_overflow('{"a": 1, "b": [2, 1e999]}').steps == (("a", "b"), 1)
    assert find_overflow('{"a": "1e999", "b": 1e99}') is None


MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "wanted", "value"),
    [
        (MAP, '{"ab": 1, "ab": 2}', {"ab": 1}),
        ({**MAP, "properties": {"q": {"type": "string"}}}, '{"q": "x", "ab": 1, "ab": 2}', {"q": "x", "ab": 1}),
        ({"type": "array", "items": MAP}, '[{"a": 1, "a": 1, ' + '"a": 1, ' * 20, [{"a": 1}]),
        (
            {"type": "object", "patternProperties": {"^[ab]+$": {"type": "integer"}}, "additionalProperties": False},
            '{"ab": 1, "ab": 2}',
            {"ab": 1},
        ),
    ],
)
def test_under_the_names_of_its_keys_an_object_says_each_once(grammars, schema, wanted, value):
    written, _ = greedy(grammars, schema, wanted)
    found = find_repeated_key(written)
    narrower = with_keys(schema, found.steps, found.keys, closed=True)
    again, complete = greedy(grammars, narrower, wanted)
    assert find_repeated_key(again) is None
    assert complete
    assert json.loads(again) == value


class TwiceEngine(ScriptedEngine):
    """Writes a key twice as long as its grammar gives the key no name."""

    async def generate(self, request):
        async with aclosing(super().generate(request)) as chunks:
            async for chunk in chunks:
                if request.grammar is not None and '"properties"' not in request.grammar.text:
                    chunk = replace(chunk, text=chunk.text.replace('"k": 1', '"k": 1, "k": 1'))
                yield chunk


@pytest.mark.anyio
async def test_a_map_that_names_a_key_twice_is_written_again_with_names_for_its_keys():
    engine = TwiceEngine([Fill("Hello", {"k": 1})])
    filled = await fill(engine, "Hello", dict[str, int])
    assert filled.value == {"k": 1}
    assert filled[""].how == "repaired"
    assert len(written_schemas(engine)) == 2


class LosesItsGrammar(ScriptedEngine):
    """Cannot follow a grammar with a pattern to its end."""

    async def generate(self, request):
        async with aclosing(super().generate(request)) as chunks:
            async for chunk in chunks:
                yield chunk
            if request.grammar is not None and '"pattern"' in request.grammar.text:
                raise GrammarError("the grammar's matcher stopped")


@pytest.mark.anyio
async def test_a_grammar_that_cannot_be_followed_is_loosened_and_the_validator_decides():
    engine = LosesItsGrammar([Fill("Hello", {"code": "abc"})])
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5}}}
    filled = await fill(engine, "Hello", {**schema, "required": ["code"]})
    assert filled.value == {"code": "abc"}
    assert [schema.get("maxLength") for schema in written_schemas(engine)] == [5, 5]
