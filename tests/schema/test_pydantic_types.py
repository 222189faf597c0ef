"""Every kind of type that pydantic knows: filled at random under its grammar, validated, built, and written again."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import ipaddress
import pathlib
import re
import uuid
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import (
    UUID1,
    UUID3,
    UUID4,
    UUID5,
    AliasChoices,
    AliasPath,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64Str,
    Base64UrlBytes,
    Base64UrlStr,
    BaseModel,
    ByteSize,
    Field,
    FileUrl,
    FiniteFloat,
    FutureDate,
    FutureDatetime,
    HttpUrl,
    IPvAnyAddress,
    IPvAnyInterface,
    IPvAnyNetwork,
    Json,
    NaiveDatetime,
    NegativeFloat,
    NonNegativeInt,
    PastDate,
    PastDatetime,
    PositiveInt,
    PostgresDsn,
    SecretBytes,
    SecretStr,
    StrictBool,
    StrictBytes,
    StrictInt,
    StrictStr,
    StringConstraints,
    TypeAdapter,
    WebsocketUrl,
    condecimal,
    conint,
    conlist,
    conset,
    constr,
)  # fmt: skip

from agentform.errors import ArgumentsTruncated, InvalidInput, UnsupportedSchema
from agentform.schema.json_text import loads
from agentform.schema.target import load
from tests.support.random_writer import RandomWriter


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Colour(enum.StrEnum):
    RED = "red"
    GREEN = "green"


class Mixed(enum.Enum):
    WORD = "x"
    THREE = 3


class Point(NamedTuple):
    a: int
    b: str


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Bird(Cat):
    kind: Literal["bird"] = "bird"  # pyright: ignore[reportIncompatibleVariableOverride]


class Inside(BaseModel):
    count: int = Field(validation_alias=AliasChoices("n", AliasPath("counts", 0)))
    first: int = Field(validation_alias=AliasPath("counts", 0), default=1)


class Model(BaseModel):
    at: NaiveDatetime
    of: dict[Colour, bool] = {}


MAPS: list[Any] = [
    dict[Number, int], dict[Colour, int], dict[Mixed, bool], dict[int, str], dict[float, int], dict[bool, int],
    dict[uuid.UUID, int], dict[dt.date, int], dict[Literal[1, 2], int], dict[Literal["a", "b"], int],
    dict[Annotated[int, Field(ge=1, le=5)], bool], dict[Annotated[int, Field(ge=10, le=900)], bool],
    dict[Decimal, int], dict[Annotated[str, Field(pattern="^a+$")], int],
    dict[Annotated[str, Field(min_length=2, max_length=5)], int], Mapping[str, int],
    collections.OrderedDict[str, int], collections.Counter[str],
]  # fmt: skip
TIMES: list[Any] = [
    dt.datetime, NaiveDatetime, AwareDatetime, PastDatetime, FutureDatetime, dt.date, PastDate, FutureDate, dt.time,
    dt.timedelta, Annotated[dt.date, Field(ge=dt.date(2020, 1, 1), le=dt.date(2023, 12, 31))],
    Annotated[dt.timedelta, Field(ge=dt.timedelta(0))],
    Annotated[dt.timedelta, Field(ge=dt.timedelta(0), le=dt.timedelta(hours=2))],
    Annotated[dt.date, Field(gt=dt.date(2024, 12, 30), lt=dt.date(2025, 1, 2))],
    Annotated[dt.time, Field(ge=dt.time(9), lt=dt.time(17, 30))],
    Annotated[NaiveDatetime, Field(ge=dt.datetime(2024, 3, 1, 8), le=dt.datetime(2024, 3, 2))],
    Annotated[dt.timedelta, Field(ge=dt.timedelta(minutes=90))],
    Annotated[dt.timedelta, Field(gt=dt.timedelta(0), lt=dt.timedelta(days=3))],
    Annotated[dt.timedelta, Field(lt=dt.timedelta(hours=-1))],
    Annotated[AwareDatetime, Field(ge=dt.datetime(2024, 3, 1, tzinfo=dt.UTC)), Field(lt=dt.datetime.max)],
    Annotated[dt.datetime, Field(gt=dt.datetime(2024, 3, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))))],
    Annotated[dt.time, Field(ge=dt.time(9, tzinfo=dt.UTC))],
]  # fmt: skip
TEXTS: list[Any] = [
    str, uuid.UUID, UUID1, UUID3, UUID4, UUID5, ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network,
    ipaddress.IPv6Network, ipaddress.IPv4Interface, ipaddress.IPv6Interface, IPvAnyAddress, IPvAnyNetwork,
    IPvAnyInterface, bytes, Base64Bytes, Base64Str, Base64UrlBytes, Base64UrlStr, SecretStr, SecretBytes, HttpUrl,
    FileUrl, WebsocketUrl, PostgresDsn, AnyUrl, pathlib.Path, StrictStr, StrictBytes, ByteSize, complex,
    constr(min_length=1, max_length=3, pattern="^[a-c]+$"), Annotated[str, StringConstraints(to_upper=True)],
    re.Pattern, Annotated[bytes, Field(min_length=2, max_length=4)],
]  # fmt: skip
NUMBERS: list[Any] = [
    int, float, bool, Decimal, condecimal(max_digits=5, decimal_places=2), condecimal(decimal_places=1),
    condecimal(decimal_places=0), Annotated[float, Field(multiple_of=0.3)],
    Annotated[int, Field(ge=2**54, le=2**54 + 8)],
    condecimal(ge=0, le=10, multiple_of=Decimal("0.25")), condecimal(gt=0, max_digits=3), StrictInt, StrictBool,
    PositiveInt, NonNegativeInt, NegativeFloat, FiniteFloat, conint(multiple_of=7),
    Annotated[float, Field(gt=0, lt=1)], Annotated[float, Field(ge=0, multiple_of=0.01)],
]  # fmt: skip
OTHERS: list[Any] = [
    None, Any, Hashable, Number, Colour, Mixed, Literal[1, "a", None], int | None,
    int | str, conlist(int, max_length=3), conset(int, min_length=1),
    frozenset[int], set[str], tuple[int, ...], tuple[int, str], collections.deque[int],
    list[Annotated[Cat | Bird, Field(discriminator="kind")]],
    Sequence[int], Iterable[int], Point, Model, Json, Json[list[int]],
]  # fmt: skip
LEFT_TO_PYDANTIC = (
    "date", "past", "future", "bytes", "digits in total", "regular expression", "Invalid JSON", "domain", "port",
)  # fmt: skip
"""What is refused for these reasons no pattern says: that a day exists or is over, how many bytes a text takes, ..."""
NUM_SEEDS = 6


@pytest.mark.parametrize("kind", [*MAPS, *TIMES, *TEXTS, *NUMBERS, *OTHERS], ids=str)
def test_what_is_written_under_the_grammar_of_a_type_is_a_value_of_it(compiler, tokenizer, kind):
    target = load(kind)
    for seed in range(NUM_SEEDS):
        value = written(target, RandomWriter(compiler, tokenizer, Random(seed)))
        if value is None:
            continue
        violations = target.validator.check(value[0])
        assert all(any(said in v.reason for said in LEFT_TO_PYDANTIC) for v in violations), (value, violations)
        if not violations:
            assert_survives(target, kind, value[0])


def written(target, writer):
    """The value, in a list; None where random tokens come to no end, or say a key twice or a number beyond floats."""
    try:
        return [loads(writer.form(target.form.root))]
    except ArgumentsTruncated:
        return None
    except InvalidInput:
        return None


def assert_survives(target, kind, value):
    built = target.validator.build(value)
    if kind in (SecretStr, SecretBytes, Iterable[int], Any, Hashable) or "Json" in str(kind):
        return  # these do not say what they hold, or say it otherwise
    again = loads(TypeAdapter(kind).dump_json(built).decode())
    assert target.validator.build(again) == built


@pytest.mark.parametrize(
    ("kind", "legal", "illegal"),
    [
        (NaiveDatetime, '"2024-05-06T10:00:00"', '"2024-05-06T10:00:00Z"'),
        (AwareDatetime, '"2024-05-06T10:00:00+02:00"', '"2024-05-06T10:00:00"'),
        (dt.datetime, '"2024-05-06T10:00:00.25"', '"2024-13-06T10:00:00"'),
        (dt.date, '"2024-02-29"', '"2024-04-31"'),
        (UUID4, '"5fb1a5ee-3f3d-4c7e-8a5e-1234567890ab"', '"5fb1a5ee-3f3d-1c7e-8a5e-1234567890ab"'),
        (ipaddress.IPv6Network, '"2001:db8::/32"', '"hello"'),
        (Base64Bytes, '"aGVsbG8="', '"aGVsbG8"'),
        (condecimal(max_digits=5, decimal_places=2), "999.99", "1000.00"),
        (HttpUrl, '"https://example.org/a?b=c"', '"ftp://example.org"'),
        (ByteSize, '"1.5 KiB"', '"1 the"'),
    ],
)
def test_the_grammar_takes_what_pydantic_takes_and_not_what_it_refuses(takes, kind, legal, illegal):
    node = load(kind).form.root
    schemas = [arm.schema for arm in node.arms] if hasattr(node, "arms") else [node.schema]
    assert any(takes(schema, legal) for schema in schemas)
    assert not any(takes(schema, illegal) for schema in schemas)


def test_a_map_with_listed_keys_is_a_record_of_them():
    form = load(dict[Colour, Annotated[int, Field(ge=0, le=9)]]).form
    assert [(item.name, item.required) for item in form.root.fields] == [("red", False), ("green", False)]
    schema = {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "boolean"}}
    assert [item.name for item in load(schema).form.root.fields] == ["a", "b"]


def test_keys_that_are_whole_numbers_of_a_short_range_are_listed():
    form = load(dict[Annotated[int, Field(ge=1, le=3)], bool]).form
    assert [item.name for item in form.root.fields] == ["1", "2", "3"]


def test_a_field_that_has_no_key_of_its_own_is_left_out_or_refused():
    class Deep(BaseModel):
        first: int = Field(validation_alias=AliasPath("counts", 0))

    assert [item.name for item in load(Inside).form.root.fields] == ["n"]
    with pytest.raises(UnsupportedSchema, match="AliasChoices"):
        load(Deep)


def test_what_is_shown_is_pydantics_own_schema():
    assert load(NaiveDatetime).form.schema == {"type": "string", "format": "date-time"}
    assert load(NaiveDatetime).form.root.why == "format date-time"
