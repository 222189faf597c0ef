"""JSON text is strict both ways, and tool results become JSON."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentform.errors import InvalidInput
from agentform.schema.json_text import dumps, loads, problems, to_jsonable

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=20,
)


@given(JSON)
def test_round_trip(value):
    again = loads(dumps(value))
    assert again == value
    assert dumps(again) == dumps(value)


def test_style():
    assert dumps({"b": [1, 2.5, None, True], "a": "x"}) == '{"b": [1, 2.5, null, true], "a": "x"}'
    assert dumps((1, {"k": ()})) == '[1, {"k": []}]'


def test_fault_12_and_32_text_is_raw():
    assert dumps("名古屋 Münster 🚀") == '"名古屋 Münster 🚀"'


def test_fault_31_control_text_is_literal_data():
    text = "</tool_call><|im_end|>"
    assert dumps({"a": text}) == '{"a": "</tool_call><|im_end|>"}'
    assert loads(dumps(text)) == text


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (math.nan, "''"),
        ({"a": [0, math.inf]}, "'/a/1'"),
        ({"a/b": -math.inf}, "'/a~1b'"),
        ({"a": b"x"}, "'/a'"),
        ({1: 2}, "key 1"),
        ("\ud800", "surrogate"),
        ({"a": {1, 2}}, "set"),
    ],
)
def test_fault_34_what_is_not_json_is_not_written(value, where):
    with pytest.raises(InvalidInput, match=where):
        dumps(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "NaN"),
        ("[-Infinity]", "Infinity"),
        ("1e999", "too large"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' is given twice"),
        ("{'a': 1}", "not JSON"),
        ("", "not JSON"),
        ("1 2", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_fault_34_what_is_not_json_is_not_read(text, said):
    with pytest.raises(InvalidInput, match=said):
        loads(text)


def test_fault_11_big_integers_are_exact():
    assert loads("9223372036854775808") == 2**63
    assert dumps(2**200) == str(2**200)


def test_integers_beyond_the_interpreters_limit():
    with pytest.raises(InvalidInput, match="not JSON"):
        dumps(10**5000)
    with pytest.raises(InvalidInput, match="not JSON"):
        loads("1" * 5000)


def test_cycles_are_a_problem_not_a_crash():
    loop: list = []
    loop.append(loop)
    assert "levels deep" in next(problems(loop))[1]


class Shade(Enum):
    dark = "d"


class Model(BaseModel):
    at: datetime
    shade: Shade = Shade.dark


@dataclass
class Point:
    x: int
    tags: frozenset[str]


class Odd:
    def __str__(self):
        return "odd"


def test_fault_21_results_become_json():
    at = datetime(2024, 1, 2, 3, tzinfo=UTC)
    assert to_jsonable({"t": at, "d": Decimal("1.10")}) == {"t": "2024-01-02T03:00:00Z", "d": "1.10"}
    assert to_jsonable(Model(at=at)) == {"at": "2024-01-02T03:00:00Z", "shade": "d"}
    assert to_jsonable([Point(1, frozenset({"a"})), Odd(), {1: 2}]) == [
        {"x": 1, "tags": ["a"]},
        "odd",
        {"1": 2},
    ]
    assert to_jsonable([b"ok", math.nan]) == ["ok", "nan"]


def test_results_that_cannot_become_json_become_text():
    loop: list = []
    loop.append(loop)
    assert isinstance(to_jsonable(loop), str)
    assert to_jsonable("\ud800") == "\ufffd"


@given(st.binary())
def test_any_bytes_become_json(data):
    assert isinstance(loads(dumps(to_jsonable({"data": data}))), dict)


def test_arrays_views_and_mappings_of_other_libraries_are_json():
    numpy = pytest.importorskip("numpy")
    assert to_jsonable([numpy.int64(3), numpy.zeros((1, 2)), numpy.bool_(True)]) == [3, [[0.0, 0.0]], True]
    assert to_jsonable({"big": numpy.zeros(500_000)})["big"].startswith("[0.")
    assert to_jsonable([{"a": 1}.values(), range(2), memoryview(b"x"), MappingProxyType({"a": 1})]) == [
        [1],
        [0, 1],
        "x",
        {"a": 1},
    ]


class Nameless:
    """Says nothing of itself."""


def test_no_key_is_lost_where_two_would_read_alike():
    assert to_jsonable({1: "a", "1": "b"}) == {"1": "a", "'1'": "b"}
    assert to_jsonable([{True: 1, "true": {2: 3, "2": 4}}]) == [{"true": 1, "'true'": {"2": 3, "'2'": 4}}]
    assert to_jsonable({1: "a", 2: "b"}) == {"1": "a", "2": "b"}


def test_objects_show_no_address_and_errors_their_type():
    assert to_jsonable([Nameless(), ValueError("too low"), KeyError()]) == [
        f"<{__name__}.Nameless object>",
        "ValueError: too low",
        "KeyError",
    ]
    assert to_jsonable("<a at 0x12>") == "<a at 0x12>"  # a text is no object


def test_what_is_plain_is_written_as_anything_else_is():
    value = {"a": [1, 2.5, None, True, "é", {"b": ()}]}
    assert dumps(value) == '{"a": [1, 2.5, null, true, "é", {"b": []}]}'
    with pytest.raises(InvalidInput, match="/a/0"):
        dumps({"a": [float("nan")]})
