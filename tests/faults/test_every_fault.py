"""Every fault on the list has a test that is named after it.

Most stand beside the tests of what they concern: 1 to 16 in tests/schema and tests/grammar, 17 to 24 and 34 in
tests/tools/test_tool.py, 12, 21, 31, 32 and 34 in tests/schema/test_json_text.py. The others are in this folder.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FAULTS = {
    1: "an optional list is a list, not text",
    2: "a discriminated union keeps its arm",
    3: "a recursive model compiles and fills",
    4: "a reference into an array position resolves",
    5: "a map keeps its keys",
    6: "an object with only `required` accepts",
    7: "a set with duplicates is rejected",
    8: "pattern and length both hold",
    9: "a lookahead pattern degrades its leaf alone, and it is said",
    10: "a long nested text works",
    11: "big integers are exact",
    12: "text is raw UTF-8",
    13: "literals with newlines and quotes are exact",
    14: "an enum of thousands takes bounded time",
    15: "names that begin alike are all reachable",
    16: "annotated constraints hold and are in the schema",
    17: "variadic signatures are refused at registration",
    18: "positional-only parameters are bound by position",
    19: "docstrings of every style are parsed, never a crash",
    20: "an async tool works from a blocking run",
    21: "results become JSON",
    22: "a bad tool name is refused at registration",
    23: "two tools of one name are refused",
    24: "a tool without arguments gets an empty object",
    25: "white space is bounded",
    26: "a token limit inside a string is no call",
    27: "an end of reasoning is found only where it ends",
    28: "whether to call is a decision of its own",
    29: "the same call again and again is broken off",
    30: "a fenced call is recovered if it is valid",
    31: "control text in arguments is data",
    32: "printable text has no escapes, and no delta comes twice",
    33: "unknown counts are null, not zero",
    34: "values that JSON does not have are defined",
}
TESTS = Path(__file__).parents[1]


def numbers_with_tests() -> set[int]:
    names = (
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"def test_fault_((?:\d+_and_)*\d+)_", path.read_text(encoding="utf-8"))
    )
    return {int(number) for name in names for number in name.split("_and_")}


@pytest.mark.parametrize("number", FAULTS)
def test_a_fault_has_its_test(number):
    assert number in numbers_with_tests(), FAULTS[number]


def test_no_test_names_a_fault_that_is_not_listed():
    assert numbers_with_tests() <= set(FAULTS)
