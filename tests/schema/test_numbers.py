"""Multiples and bounds are what their digits say: validator, pydantic and grammar agree."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from agentform import fill_sync
from agentform.errors import UnsupportedSchema
from agentform.schema.json_text import loads
from agentform.schema.target import load
from agentform.testing import Fill, ScriptedEngine

STEPS = st.sampled_from([0.01, 0.05, 0.07, 0.1, 0.25, 0.3, 0.001, 2.5, 1e-8, 3, 10**12])


class Price(BaseModel):
    euro: Annotated[float, Field(ge=0, multiple_of=0.01)]


@pytest.mark.parametrize("amount", [19.99, 4.02, 0.07, 4.35, 1.11, 0, 5])
def test_prices_are_multiples_of_a_cent(amount):
    filled = fill_sync(ScriptedEngine([Fill("lamp", {"euro": amount})]), "the lamp", Price)
    assert filled.value == Price(euro=amount)


@pytest.mark.parametrize(
    ("schema", "legal", "illegal"),
    [
        ({"multipleOf": 0.01}, [19.99, -0.07, 10**400, 1e300], [0.001, 19.995]),
        ({"multipleOf": 1e-300}, [1, 1e300, 0.5], []),
        ({"multipleOf": 1e300}, [0, 1e300, 3 * 10**300], [1, 1e299]),
        ({"multipleOf": 3}, [3.0, 3 * 10**30], [10**30, 3.5]),
        ({"minimum": 1e-7, "maximum": 1e-5}, [1e-7, 0.000001, 1e-5], [9e-8, 2e-5]),
        ({"minimum": 2**53 + 1}, [2**53 + 1], [2**53]),
        ({"exclusiveMaximum": 10**30}, [10**30 - 1], [10**30, 1e30]),
    ],
)
def test_numbers_of_any_size_are_compared_as_written(schema, legal, illegal):
    validator = load({"type": "number", **schema}).validator
    assert [number for number in legal if validator.check(number)] == []
    assert [number for number in illegal if not validator.check(number)] == []


@settings(max_examples=200, deadline=None, derandomize=True)
@given(step=STEPS, count=st.integers(-10_000, 10_000), off=st.integers(0, 3))
def test_what_decimals_call_a_multiple_is_one(step, count, off):
    number = float(Decimal(repr(step)) * count + Decimal(repr(step)) / 4 * off)
    is_one = (Decimal(repr(number)) % Decimal(repr(step))) == 0
    assert (load({"type": "number", "multipleOf": step}).validator.check(number) == ()) == is_one


@settings(max_examples=200, deadline=None, derandomize=True)
@given(step=st.sampled_from([0.01, 0.05, 0.1, 0.25, 2.5]), count=st.integers(-10_000, 10_000))
def test_pydantic_takes_every_multiple(step, count):
    kind = Annotated[float, Field(multiple_of=step)]
    number = float(Decimal(repr(step)) * count)
    assert load(kind).validator.build(number) == number
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(number + step / 3)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    step=st.sampled_from(["0.01", "0.1", "0.05", "0.25", "0.5", "2.5", "3"]),
    first=st.integers(-40, 40),
    size=st.integers(2, 60),
    off=st.sampled_from(["0", "0.003", "0.5"]),
    exclusive=st.booleans(),
)
def test_the_grammar_takes_each_legal_multiple_and_no_other(takes, step, first, size, off, exclusive):
    low, high = Decimal(step) * first - Decimal(off), Decimal(step) * (first + size) + Decimal(off)
    words = ("exclusiveMinimum", "exclusiveMaximum") if exclusive else ("minimum", "maximum")
    schema = {"type": "number", "multipleOf": float(step), words[0]: float(low), words[1]: float(high)}
    validator = load(schema).validator
    for count in (first - 1, first, first + 1, first + size - 1, first + size, first + size + 1):
        texts = _ways_to_write(Decimal(step) * count)
        legal = validator.check(loads(texts[0])) == ()
        assert any(takes(schema, text) for text in texts) == legal, texts


def _ways_to_write(number):
    plain = format(number, "f")
    short = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return [text for text in dict.fromkeys([plain, short]) if text != "-0"] or ["0"]


def test_a_range_that_holds_no_multiple_has_no_value():
    empty = {"type": "integer", "minimum": 1, "maximum": 2, "multipleOf": 3}
    with pytest.raises(UnsupportedSchema, match="no value"):
        load(empty)
    assert load({"type": "object", "properties": {"a": empty, "b": {"type": "null"}}}).form.root.fields[0].name == "b"
