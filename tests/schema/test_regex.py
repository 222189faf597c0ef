from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentform.errors import UnsupportedSchema
from agentform.schema.regex import compiled, python_pattern
from agentform.schema.regex_simulation import Simulation
from agentform.schema.regex_tree import parse
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
def test_what_is_no_expression_is_an_error(pattern):
    with pytest.raises(re.error):
        compiled(pattern)


def test_all_characters_are_looked_at_once_however_many_categories_are_named(monkeypatch):
    compiled(r"\p{Lu}")
    monkeypatch.setattr("agentform.schema.regex.unicodedata", None)
    assert compiled(r"^\p{Sc}\p{LOWERCASE_Letter}\p{lowercase_LETTER}$").search("€ab")


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


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "(x+x+)+y", "(a|a)*b$", "^(?=(a+)+$)a", "(?:a?){30}a{30}b", r"^(\w+\s?)*$", "((a{1,90}){1,90}){1,90}$"],
)
def test_no_expression_takes_time_that_grows_exponentially(pattern):
    text = "a" * 5_000 + "!"
    assert not compiled(pattern).search(text)
    schema = {"type": "object", "patternProperties": {pattern: False}, "unevaluatedProperties": {"pattern": pattern}}
    assert load(schema).validator.check({text: text}) != ()


def test_what_takes_too_many_steps_is_a_violation_that_says_so():
    [violation] = SchemaValidator({"pattern": "(?!(a*)*b)^(a*)*$"}).check("a" * 5_000 + "!")
    assert "takes too long" in violation.reason


def test_a_nested_dialect_does_not_bring_another_engine_back():
    dialect = "http://json-schema.org/draft-07/schema#"
    schema = {"properties": {"a": {"$schema": dialect, "patternProperties": {"^(a+)+$": False}}}}
    assert SchemaValidator(schema).check({"a": {"a" * 5_000 + "!": 1}}) == ()


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?<n>a)(?P=n)", "a" * 20_001])
def test_what_no_automaton_knows_is_refused_with_its_place(pattern):
    with pytest.raises(UnsupportedSchema, match="linear time") as raised:
        load({"properties": {"a": {"type": "string", "pattern": pattern}}})
    assert raised.value.pointer == "/properties/a/pattern"


def test_unevaluated_keys_see_the_patterns_of_keys():
    schema = {"type": "object", "patternProperties": {"^a": {"type": "integer"}}, "unevaluatedProperties": False}
    validator = load(schema).validator
    assert validator.check({"ab": 1}) == ()
    assert validator.check({"ab": "x"}) != ()
    assert validator.check({"b": 1}) != ()


ATOMS = st.sampled_from(
    ["a", "b", "A", "1", " ", ".", "[a-b]", "[^a]", r"\d", r"\w", r"\W", r"[\D]", "^", r"\Z", r"\b"]
)
COUNTS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?", "{0,2}", "{2,}"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, COUNTS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(st.sampled_from(["?=", "?!", "?i:"]), inner).map(lambda pair: f"({pair[0]}{pair[1]})"),
    ),
    max_leaves=8,
)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(pattern=EXPRESSIONS, text=st.text(alphabet="abAB1 _!", min_size=1, max_size=7))
def test_both_engines_find_what_backtracking_finds(pattern, text):
    wanted = bool(re.compile(pattern, re.ASCII).search(text))
    assert Simulation(*parse(pattern)).search(text) == wanted
    assert compiled(pattern.replace(r"\Z", "$")).search(text) == wanted
