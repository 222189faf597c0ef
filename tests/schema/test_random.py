"""Random schemas and models: what random tokens write under their grammars parses and is valid."""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from decimal import Decimal
from random import Random
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pydantic import Field, create_model

from agentform.errors import AgentformError, ArgumentsTruncated, InvalidInput, UnsupportedSchema
from agentform.grammar.compile import Compiler
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema.json_text import dumps, loads
from agentform.schema.refs import Document
from agentform.schema.target import load
from tests.support.random_writer import RandomWriter
from tests.support.tiny_tokenizer import write_tiny_tokenizer


def examples(number):
    return settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.function_scoped_fixture,
            HealthCheck.filter_too_much,
        ],
    )


NAMES = ("a", "b c", "ä", "kind")
PATTERNS = ("^a+$", "^[A-Z]{2}-[0-9]+$", "x|yz", "^(?:foo|bar)", "[0-9]$", r"^\d{4}$", r"^\w*\.$")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def compiler(tokenizer):
    return Compiler(Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids))


def pairs(low, high):
    return st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-999, 999), st.text(max_size=4))
STRINGS = st.one_of(
    st.just({"type": "string"}),
    pairs(0, 6).map(lambda size: {"type": "string", "minLength": size[0], "maxLength": size[1]}),
    st.sampled_from(PATTERNS).map(lambda pattern: {"type": "string", "pattern": pattern}),
    st.sampled_from(PATTERNS[:3]).map(lambda pattern: {"type": "string", "pattern": pattern, "maxLength": 12}),
)
NUMBERS = st.one_of(
    st.sampled_from([{"type": "integer"}, {"type": "number"}]),
    pairs(-2000, 2000).map(lambda ends: {"type": "integer", "minimum": ends[0], "maximum": ends[1]}),
    pairs(-50, 50).map(lambda ends: {"type": "number", "exclusiveMinimum": ends[0], "maximum": ends[1] + 1}),
    st.integers(2, 12).map(lambda step: {"type": "integer", "multipleOf": step, "minimum": 0}),
)
LEAVES = st.one_of(
    STRINGS,
    NUMBERS,
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"], "maxLength": 3}]),
    st.lists(SCALARS, min_size=1, max_size=4).map(lambda values: {"enum": values}),
    SCALARS.map(lambda value: {"const": value}),
)


def arrays(items):
    return st.one_of(
        items.map(lambda item: {"type": "array", "items": item}),
        st.tuples(items, pairs(0, 4)).map(
            lambda given: {"type": "array", "items": given[0], "minItems": given[1][0], "maxItems": given[1][1]}
        ),
        st.lists(items, min_size=1, max_size=3).map(
            lambda some: {"type": "array", "prefixItems": some, "items": False, "minItems": len(some)}
        ),
        items.map(lambda item: {"type": "array", "items": item, "uniqueItems": True, "maxItems": 3}),
    )


@st.composite
def objects(draw, members):
    properties = draw(st.dictionaries(st.sampled_from(NAMES), members, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    schema = {"type": "object", "properties": properties, "required": required}
    schema["additionalProperties"] = draw(st.one_of(st.booleans(), members))
    if draw(st.integers(0, 9)) == 0 and properties:
        schema["dependentRequired"] = {next(iter(properties)): ["kind"]}
    if draw(st.integers(0, 9)) == 0:
        schema["minProperties"] = draw(st.integers(0, 2))
    return schema


def unions(arms):
    some = st.lists(arms, min_size=1, max_size=3)
    return st.one_of(
        some.map(lambda found: {"anyOf": found}),
        some.map(lambda found: {"oneOf": found}),
        st.tuples(arms, SCALARS).map(lambda given: {**given[0], "not": {"const": given[1]}}),
    )


@st.composite
def recursive(draw, inner):
    member = draw(inner)
    node = {
        "type": "object",
        "properties": {"v": member, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
        "required": ["v", "next"],
        "additionalProperties": False,
    }
    return {"$ref": "#/$defs/node", "$defs": {"node": node}}


BELOW = st.recursive(LEAVES, lambda inner: st.one_of(arrays(inner), objects(inner), unions(inner)), max_leaves=6)
SCHEMAS = st.one_of(BELOW, recursive(LEAVES))


def read(text):
    """The value, in a list; None for what a grammar cannot keep out of JSON: huge numbers and repeated keys."""
    try:
        return [loads(text)]
    except InvalidInput as error:
        reason = str(error)
    assert "too large" in reason or "given twice" in reason, text
    return None


def judge(target, text, relaxed):
    """A text is valid JSON and valid; or the validator says why not, and something was said to be unenforced."""
    value = read(text)
    if value is None:
        event("typed error: number or key")
        return
    violations = target.validator.check(value[0])
    if violations:
        event("typed error: relaxed")
        assert relaxed, f"{text} is invalid although all was enforced: {violations}"
    else:
        event("valid")


@examples(1_300)
@given(schema=SCHEMAS, seed=st.integers(0, 2**32))
def test_random_schemas_written_as_forms(compiler, tokenizer, schema, seed):
    try:
        target = load(schema)
    except UnsupportedSchema:
        assume(False)
        raise
    writer = RandomWriter(compiler, tokenizer, Random(seed))
    try:
        text = writer.form(target.form.root)
    except ArgumentsTruncated:
        event("typed error: truncated")
        return
    judge(target, text, [*target.form.relaxed, *writer.relaxed])


@examples(700)
@given(schema=SCHEMAS, seed=st.integers(0, 2**32))
def test_random_schemas_written_as_one_grammar(compiler, tokenizer, schema, seed):
    try:
        target = load(schema)
    except UnsupportedSchema:
        assume(False)
        raise
    text_of_schema = dumps(Document(schema, "2020-12").closed({"$ref": "#"}))
    writer = RandomWriter(compiler, tokenizer, Random(seed))
    try:
        text = writer.value(text_of_schema)
    except ArgumentsTruncated:
        event("typed error: truncated")
        return
    judge(target, text, writer.relaxed)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


PLAIN: Any = st.sampled_from(
    [
        int, str, bool, float, type(None), Colour, uuid.UUID, datetime.date, datetime.timedelta, Decimal, bytes,
        Literal["x", 3, None], Annotated[int, Field(ge=1, lt=9)], Annotated[str, Field(min_length=1, max_length=4)],
        Annotated[float, Field(gt=0, le=1)], Annotated[str, Field(pattern="^[a-c]+$")], set[Literal["p", "q"]],
        Annotated[int, Field(multiple_of=7, ge=0)], Any,
    ]
)  # fmt: skip


def models(inner):
    def make(given):
        fields = {name: (kind, ...) if needed else (kind | None, None) for name, (kind, needed) in given.items()}
        return create_model("Model", **fields)

    names = st.sampled_from(["alpha", "beta", "gamma"])
    return st.dictionaries(names, st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(make)


def containers(inner):
    return st.one_of(
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        st.tuples(inner, inner).map(lambda kinds: tuple[kinds[0], kinds[1]]),
        st.tuples(inner, inner).map(lambda kinds: kinds[0] | kinds[1]),
        inner.map(lambda kind: Annotated[list[kind], Field(max_length=2)]),
        models(inner),
    )


MODELS = models(st.recursive(PLAIN, containers, max_leaves=4))


def _unsaid(model):
    """What pydantic checks and its JSON Schema does not say: that a date exists, that a Decimal's text is a number."""
    found = [json.dumps(model.model_json_schema()), str(model.__pydantic_core_schema__)]
    return [word for word, text in zip(('"format"', "'decimal'"), found, strict=True) if word in text]


@examples(600)
@given(model=MODELS, seed=st.integers(0, 2**32))
def test_random_models(compiler, tokenizer, model, seed):
    target = load(model)
    writer = RandomWriter(compiler, tokenizer, Random(seed))
    try:
        text = writer.form(target.form.root)
    except ArgumentsTruncated:
        event("typed error: truncated")
        return
    judge(target, text, [*target.form.relaxed, *writer.relaxed, *_unsaid(model)])
    try:
        built = target.validator.build(loads(text))
    except AgentformError:
        return
    assert isinstance(built, model)
