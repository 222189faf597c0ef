from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform.json_schema.keywords import is_annotation
from agentform.json_schema.pointer import pointer, steps_of
from agentform.json_schema.walk import map_subschemas, subschemas

SCHEMA = {
    "properties": {"a/b": {"type": "string"}, "c": True},
    "items": [{"const": 1}, False],
    "anyOf": [{"const": 2}],
    "not": {"const": 3},
    "dependencies": {"c": ["d"], "d": {"const": 4}},
    "enum": [{"not": "a schema"}],
    "const": {"properties": {}},
}


def test_subschemas_are_found_where_keywords_hold_them_and_nowhere_else():
    found = {pointer(path): schema for path, schema in subschemas(SCHEMA)}
    assert found == {
        "/properties/a~1b": {"type": "string"},
        "/properties/c": True,
        "/items/0": {"const": 1},
        "/items/1": False,
        "/anyOf/0": {"const": 2},
        "/not": {"const": 3},
        "/dependencies/d": {"const": 4},
    }


def test_a_copy_has_each_subschema_changed_and_the_rest_as_it_was():
    changed = map_subschemas(SCHEMA, lambda path, schema: {"was": pointer(path)})
    assert changed["properties"] == {"a/b": {"was": "/properties/a~1b"}, "c": {"was": "/properties/c"}}
    assert changed["dependencies"] == {"c": ["d"], "d": {"was": "/dependencies/d"}}
    assert (changed["enum"], changed["const"]) == (SCHEMA["enum"], SCHEMA["const"])
    assert map_subschemas(SCHEMA, lambda _, schema: schema) == SCHEMA
    assert SCHEMA["not"] == {"const": 3}


def test_extensions_only_annotate():
    assert is_annotation("x-anything")
    assert is_annotation("description")
    assert not is_annotation("format")


@given(path=st.lists(st.text()).map(tuple))
def test_a_pointer_leads_back_to_its_path(path):
    assert steps_of(pointer(path)) == path
