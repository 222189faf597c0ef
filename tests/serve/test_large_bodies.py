"""A body that is small in bytes is small in memory and in time, whatever it is made of."""

from __future__ import annotations

import copy
import json

import pytest
from pydantic import ValidationError

from agentform.serve.body import check_amount
from agentform.serve.chat_fields import ChatFields
from agentform.serve.decision_fields import DecisionFields
from agentform.serve.parsing import parse
from agentform.serve.problems import Refused
from agentform.serve.systemone_fields import SystemOneFields
from tests.serve.test_fuzz import CHAT, DECISIONS, SYSTEM_ONE, places

MANY = 2_000
LARGE = {
    "numbers": [0] * MANY,
    "objects": [{}] * MANY,
    "lists": [[]] * MANY,
    "texts": ["x"] * MANY,
    "unknown messages": [{"role": "robot"}] * MANY,
    "unknown parts": [{"type": "picture"}] * MANY,
    "half parts": [{"type": "text"}, {"type": "input_text"}] * (MANY // 2),
    "half messages": [{"role": "user"}] * MANY,
    "half questions": [{"type": "predicate"}] * MANY,
}


def changed(whole, path, value) -> bytes:
    body = copy.deepcopy(whole)
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(body).encode()


def num_errors(fields, body: bytes) -> int:
    try:
        fields.model_validate_json(body)
    except ValidationError as error:
        return error.error_count()
    return 0


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize(
    ("fields", "whole"), [(ChatFields, CHAT), (DecisionFields, DECISIONS), (SystemOneFields, SYSTEM_ONE)]
)
def test_a_long_list_anywhere_is_a_handful_of_errors(fields, whole, kind):
    for path in places(whole):
        if path:
            assert num_errors(fields, changed(whole, path, LARGE[kind])) < 16, path


@pytest.mark.parametrize(
    ("fields", "whole"), [(ChatFields, CHAT), (DecisionFields, DECISIONS), (SystemOneFields, SYSTEM_ONE)]
)
def test_an_object_of_very_many_keys_anywhere_is_refused_before_they_are_looked_at(fields, whole):
    keys = {f"k{at}": 0 for at in range(5000)}
    for path in places(whole):
        body = changed(whole, path, keys) if path else json.dumps(keys).encode()
        with pytest.raises(Refused) as caught:
            parse(fields, body)
        assert caught.value.problem.code == "request_too_complex"


@pytest.mark.parametrize("item", [b"0", b"{}", b"[]", b"[[[]]]", b'""', b'"\\""', b'"\\\\"', b'{"a":{}}', b'",,,"'])
def test_more_values_than_any_request_needs_are_refused_unread(item):
    few, many = (b"[" + b",".join([item] * num) + b"]" for num in (10_000, 250_000))
    check_amount(few)
    with pytest.raises(Refused):
        check_amount(many)


@pytest.mark.parametrize("text", [",", "[", "{", '",', "\\,", '\\",', "\\\\,", '\\\\",["'])
def test_a_long_text_is_one_value_whatever_it_spells(text):
    check_amount(json.dumps({"model": "m", "messages": [{"role": "user", "content": text * 250_000}]}).encode())


def test_an_answer_repeats_no_more_than_the_beginning_of_an_unknown_key():
    with pytest.raises(Refused) as caught:
        parse(DecisionFields, json.dumps(DECISIONS | {"k" * 100_000: 1}).encode())
    assert len(json.dumps(caught.value.problem.body())) < 1000


@pytest.mark.parametrize(
    ("fields", "whole"), [(ChatFields, CHAT), (DecisionFields, DECISIONS), (SystemOneFields, SYSTEM_ONE)]
)
def test_more_parts_than_any_request_needs_are_refused_before_they_are_made(fields, whole):
    key = "messages" if fields is ChatFields else "questions"
    with pytest.raises(Refused) as caught:
        parse(fields, changed(whole, (key,), [{"a": {}}] * 9000))
    assert caught.value.problem.code == "request_too_complex"
