"""The beginning of a JSON text is spelt as the beginning of the same arguments in the model's style."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agentform.decoding.formats.respell import respell
from agentform.decoding.formats.spelling import key_order, spell
from agentform.decoding.formats.tags import TaggedValues
from agentform.decoding.formats.types import Elements
from agentform.decoding.formats.values import BareValues, JsonValues, PythonValues
from agentform.decoding.formats.write import arguments_text
from agentform.schema.json_text import dumps
from tests.decoding.formats.test_round_trips import ARGUMENTS, VALUES, learned, strings
from tests.support.call_templates import CALL_TEMPLATES

SPELLINGS = [
    JsonValues(),
    JsonValues(item_separator=",", key_separator=":"),
    JsonValues(ensure_ascii=True),
    JsonValues(item_separator=",", indent=4),
    JsonValues(item_separator=",", indent=2, base=8),
    PythonValues(),
    BareValues(quote='<|"|>', sort_keys=False),
    BareValues(quote='"', quoted_keys=True, sort_keys=False, null="null"),
    TaggedValues(open="<", middle=">", close="</", end=">"),
]


def in_order(value, order):
    if isinstance(value, dict):
        return {key: in_order(value[key], order) for key in sorted(value, key=order)}
    return [in_order(item, order) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(max_examples=60, deadline=None)
@given(value=st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=3) | st.lists(VALUES, max_size=3))
def test_a_whole_value_is_spelt_as_it_is_written(spelling, value):
    assume(not isinstance(spelling, TaggedValues) or "null" not in dumps(value))
    assert respell(spelling, dumps(value)) == spelling.write(value)


def is_plain(arguments):
    texts = strings(arguments)
    return "null" not in dumps(arguments) and not any(mark in text for text in texts for mark in "<&\n")


@pytest.mark.parametrize("name", CALL_TEMPLATES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(arguments=ARGUMENTS, cut=st.integers(0, 300))
def test_arguments_are_spelt_as_they_are_written_and_their_beginnings_are_beginnings(name, arguments, cut):
    style = learned(name)[1].arguments
    # A null is left out, and a CDATA section begun, only when the whole value is there.
    assume(not isinstance(style, Elements) or not (style.cdata or not style.nulls) or is_plain(arguments))
    order = key_order(style)
    arguments = arguments if order is None else in_order(arguments, order)
    text = dumps(arguments)
    whole = "".join(part for part, _ in spell(style, text))
    assert whole == arguments_text(style, arguments)
    beginning = "".join(part for part, _ in spell(style, text[:cut]))
    assert whole.startswith(beginning)
