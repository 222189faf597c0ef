"""What a short document can ask for is bounded, in compiling and validating; both end when nobody waits."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import anyio
import pytest

from agentform._util.threads import Threads, is_given_up
from agentform.errors import UnsupportedSchema
from agentform.schema.lint import lint
from agentform.schema.target import load
from agentform.schema.work import Work


def chain(levels, link, end):
    """Definitions of which each is said by the next one, twice."""
    defs = {f"A{at}": link({"$ref": f"#/$defs/A{at + 1}"}) for at in range(1, levels)}
    return {"$ref": "#/$defs/A1", "$defs": {**defs, f"A{levels}": end}}


LINKS = {
    "anyOf": lambda ref: {"anyOf": [ref, ref]},
    "anyOf of two kinds": lambda ref: {"anyOf": [{**ref, "title": "x"}, {**ref, "minLength": 1}]},
    "oneOf": lambda ref: {"oneOf": [ref, {"not": ref}]},
    "allOf": lambda ref: {"allOf": [ref, ref]},
    "not": lambda ref: {"not": {"anyOf": [ref, ref]}},
    "properties": lambda ref: {"type": "object", "properties": {"a": ref, "b": ref}},
    "items": lambda ref: {"type": "array", "maxItems": 4, "items": ref},
    "if": lambda ref: {"if": ref, "then": ref, "else": ref},
}
ENDS = {"text": {"type": "string"}, "enum": {"enum": ["a", "b"]}, "flag": {"type": "boolean"}}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("end", ENDS)
def test_definitions_that_use_one_another_twice_cost_no_exponential_work(link, end):
    schema = chain(40, LINKS[link], ENDS[end])
    target = None
    with suppress(UnsupportedSchema):
        target = load(schema)
    if target is None:
        return
    lint(target.form)
    for value in (5, "x", {"a": {"a": {"b": 1}}}, [[[[]]]]):
        target.validator.check(value)


def test_a_spent_budget_names_the_place():
    properties = {f"p{at}": {"anyOf": [{"$ref": f"#/$defs/D{k}"} for k in range(60)]} for at in range(60)}
    definitions = {f"D{at}": {"type": "object", "properties": {"x": {"type": "string"}}} for at in range(60)}
    schema = {"type": "object", "properties": properties, "$defs": definitions}
    assert load(schema).form.root
    with pytest.raises(UnsupportedSchema, match="steps") as raised:
        Work(most=10).spend(11)
    assert raised.value.pointer == ""


def test_arms_of_one_name_are_told_apart_by_number():
    arms = [{"title": "arm", "type": "object", "properties": {f"p{at}": {"type": "integer"}}} for at in range(300)]
    labels = load({"anyOf": arms}).form.root.labels
    assert len(set(labels)) == 300
    assert labels[:3] == ("arm", "arm 2", "arm 3")


def test_dependencies_through_many_ways_are_found_once():
    names = [[f"l{level}{side}" for side in "ab"] for level in range(30)]
    needed = {name: names[at + 1] for at, pair in enumerate(names[:-1]) for name in pair}
    members = {name: {"type": "boolean"} for pair in names for name in pair}
    assert load({"type": "object", "properties": members, "dependentRequired": needed}).form.root


@pytest.mark.anyio
async def test_a_thread_whose_caller_is_gone_stops_compiling():
    threads, ended, begun = Threads("test", 1), threading.Event(), threading.Event()

    def compile_for_ever():
        work = Work(most=10**12)
        try:
            while True:
                begun.set()
                work.spend(100)
        finally:
            ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(threads.run, compile_for_ever)
        await anyio.to_thread.run_sync(begun.wait, 30)
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(ended.wait, 30)
    assert not is_given_up()


def test_a_large_schema_of_enums_is_compiled():
    values = {f"t{at}": {"enum": [f"value {k} of {at}" for k in range(250)]} for at in range(200)}
    schema = {"type": "object", "properties": values}
    assert len(json.dumps(schema)) > 700_000
    assert len(load(schema).form.root.fields) == 200
