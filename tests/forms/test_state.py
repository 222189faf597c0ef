"""What is known of a form while it is filled, and how the model is told that it was refused."""

from __future__ import annotations

import pytest

from agentform.decoding.insertion_point import unframed
from agentform.decoding.token_context import TokenContext
from agentform.errors import Violation
from agentform.forms.refusal import RefusalPrompt
from agentform.messages import Message
from agentform.schema.target import load
from tests.support.form_states import state_of

ROOT = load(
    {
        "type": "object",
        "properties": {"unit": {"enum": ["C", "F"]}, "city": {"type": "string"}, "kind": {"const": 1}},
        "required": ["unit", "city", "kind"],
    }
).form.root
UNIT, CITY = (("unit",), "value"), ("city",)


def test_a_state_never_changes_in_place():
    empty = state_of(ROOT)
    full = empty.with_answers(state_of(ROOT, {UNIT: 1}).answers).with_text(CITY, '"Rome"', again=True)
    assert (empty.answers, empty.texts, empty.shortened) == ({}, {}, frozenset())
    assert (full.index(*UNIT), full.shortened) == (1, {CITY})
    assert full.value == {"unit": "F", "city": "Rome", "kind": 1}


def test_an_open_form_has_no_json_text_but_its_known_parts_do():
    state = state_of(ROOT, {UNIT: 0})
    assert state.text_of(ROOT) is None
    assert [state.text_of(field.node) for field in ROOT.fields] == ['"C"', None, "1"]
    with pytest.raises(KeyError):
        _ = state.json_text


def test_a_leaf_is_evidence_once_it_is_known_and_says_that_it_was_shortened():
    only_free = load({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}).form.root
    state = state_of(only_free)
    assert state.evidence() == ()
    [written] = state.with_text(CITY, '"Rome"').evidence()
    assert (written.pointer, written.value, written.how) == ("/city", "Rome", "generated")
    [shortened] = state.with_text(CITY, '"Rome"', again=True).evidence()
    assert shortened.how == "repaired"


def shown_after_refusal(violations, **options):
    shown = []

    def point(messages):
        shown.extend(messages)
        return unframed(TokenContext(ids=(7,)))

    refusal = RefusalPrompt(messages=[Message(role="user", content="Hello")], point=point, **options)
    assert refusal.after('{"a": 1}', violations).before.ids == (7,)
    return shown


VIOLATIONS = [Violation(pointer="/a", reason="too small"), Violation(pointer="", reason="odd")]


def test_a_refused_form_is_shown_as_an_answer_that_the_user_refused():
    _, refused, told = shown_after_refusal(VIOLATIONS)
    assert (refused.role, refused.content, told.role) == ("assistant", '{"a": 1}', "user")
    assert told.content == "That is not valid: /a: too small; form: odd. Fill in the form again."


def test_refused_arguments_are_shown_as_a_call_that_the_tool_refused():
    _, refused, told = shown_after_refusal(VIOLATIONS, tool="weather", content="Let me look.")
    assert (refused.content, refused.calls[0].name, refused.calls[0].arguments) == ("Let me look.", "weather", {"a": 1})
    assert told.content == "Invalid: /a: too small; arguments: odd"
    assert (told.result.call_id, told.result.is_error) == (refused.calls[0].id, True)
