from __future__ import annotations

import re

import pytest

from agentform.schema.regex import compiled, python_pattern
from agentform.schema.target import load
from agentform.schema.validate import SchemaValidator


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^a$", "a", "a\n"),
        (r"^\d$", "7", "৭"),
        (r"^\w+$", "a_9", "ä"),
        (r"^\W$", "ä", "a"),
        (r"^[\d\w]+$", "a1", "ä"),
        (r"^\p{Letter}+$", "äБ", "a1"),
        (r"^\p{Lu}\P{Lu}$", "Äb", "ÄB"),
        (r"^[\p{Nd}-]+$", "৭-7", "a"),
        (r"^\cC$", "\x03", "C"),
        (r"^\u{1F600}$", "😀", "u"),
        (r"^(?<year>\d{4})$", "2024", "24"),
        (r"^a\$$", "a$", "a"),
        (r"^[$]$", "$", "a"),
        (r"^(?=a)\w+$", "ab", "ba"),
        (r"^a(?<!b)$", "a", "b"),
        (r"^\\d$", "\\d", "7"),
        (r"b", "abc", "ac"),
    ],
)
def test_expressions_mean_what_ecma_says(pattern, matching, other):
    assert compiled(pattern).search(matching)
    assert not compiled(pattern).search(other)
    validator = SchemaValidator({"type": "string", "pattern": pattern})
    assert (validator.check(matching), bool(validator.check(other))) == ((), True)


@pytest.mark.parametrize("pattern", [r"\p{NoSuchThing}", r"[\P{L}]", "(a", r"\x{41}"])
def test_what_python_has_no_words_for_is_an_error(pattern):
    with pytest.raises(re.error):
        compiled(pattern)


def test_other_text_stays_as_it_is():
    assert python_pattern(r"^[a-z\]$]{2,3}(?:x|y)*\.$") == r"^[a-z\]$]{2,3}(?:x|y)*\.\Z"


def test_keys_are_matched_alike():
    schema = {"type": "object", "patternProperties": {r"^\p{Lu}$": {"type": "integer"}}, "additionalProperties": False}
    validator = load(schema).validator
    assert validator.check({"Ä": 1}) == ()
    assert [violation.pointer for violation in validator.check({"Ä": "x", "ä": 1})] == ["/Ä", "/ä"]


def test_reasons_show_the_expression_as_it_was_written():
    [violation] = SchemaValidator({"pattern": "^a$"}).check("b")
    assert violation.reason == "'b' does not match '^a$'"


@pytest.mark.parametrize(
    ("pattern", "reason"), [("^a$", "'b' does not match '^a$'"), (r"\x{41}", "cannot be validated")]
)
def test_an_expression_in_a_place_of_no_keyword_is_followed_too(pattern, reason):
    schema = {"$ref": "#/other/place", "other": {"place": {"type": "string", "pattern": pattern}}}
    [violation] = SchemaValidator(schema).check("b")
    assert reason in violation.reason
