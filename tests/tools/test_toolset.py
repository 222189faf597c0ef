"""Toolboxes made from MCP descriptions and OpenAPI documents."""

from __future__ import annotations

from datetime import date

import anyio
import pytest
from pydantic import BaseModel, model_validator

from agentform.agent.agent import Agent
from agentform.errors import CallRejected, DuplicateTool, ToolError, UnsupportedSchema
from agentform.schema.form import Choice, Record
from agentform.testing import Call, Say, ScriptedEngine
from agentform.tools.openapi import OperationRequest
from agentform.tools.tool import Tool
from agentform.tools.toolset import Toolbox

SEARCH = {
    "name": "search-files",
    "title": "Search",
    "description": "Finds files.",
    "inputSchema": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"dir-name": {"type": "string"}, "kind": {"enum": ["file", "folder"]}},
        "required": ["dir-name"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def run(tool, arguments):
    return anyio.run(tool.run, arguments)


def test_mcp_tools_have_the_schema_as_it_stands():
    box = Toolbox.from_mcp_schema([SEARCH])
    tool = box["search-files"]
    assert tool.description == "Finds files."
    assert tool.definition()["function"]["parameters"] == SEARCH["inputSchema"]
    assert isinstance(tool.target.form.root, Record)
    kind = next(field.node for field in tool.target.form.root.fields if field.name == "kind")
    assert isinstance(kind, Choice)


@pytest.mark.parametrize("is_async", [False, True])
def test_mcp_call_gets_name_and_arguments(is_async):
    seen = []

    def call(name, arguments):
        seen.append((name, arguments))
        return "found"

    async def call_async(name, arguments):
        return call(name, arguments)

    box = Toolbox.from_mcp_schema([SEARCH], call=call_async if is_async else call)
    assert run(box["search-files"], {"dir-name": "/a"}) == "found"
    assert seen == [("search-files", {"dir-name": "/a"})]


def test_mcp_arguments_are_validated_by_the_raw_schema():
    box = Toolbox.from_mcp_schema([SEARCH], call=lambda name, arguments: "never")
    with pytest.raises(CallRejected, match="surplus"):
        run(box["search-files"], {"dir-name": "/a", "surplus": 1})


def test_mcp_without_call_can_be_planned_but_not_run():
    with pytest.raises(ToolError, match="without a `call`"):
        run(Toolbox.from_mcp_schema([SEARCH])["search-files"], {"dir-name": "/a"})


def test_mcp_tool_without_arguments():
    box = Toolbox.from_mcp_schema([{"name": "ping"}], call=lambda name, arguments: dict(arguments))
    assert run(box["ping"], {}) == {}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({**SEARCH, "name": "Search files!"}, "cannot name a tool"),
        ({**SEARCH, "name": "a" * 129}, "1 to 128"),
        ({"description": "It has no name."}, "cannot name a tool"),
        (SEARCH, "two tools are named 'search-files'"),
        ({**SEARCH, "name": "b", "inputSchema": {"type": "string"}}, "not an object"),
        ({**SEARCH, "name": "b", "inputSchema": {"type": "object", "propertys": {}}}, "propertys"),
        ({**SEARCH, "name": "b", "inputSchema": {"properties": []}}, "properties"),
        ({**SEARCH, "name": "b", "inputSchema": [1]}, ""),
        ({**SEARCH, "name": "b", "inputSchema": {"title": "\ud800"}}, "surrogate"),
        ("search", "not by str"),
    ],
)
def test_one_bad_description_of_a_server_is_left_out_with_the_reason(bad, reason, caplog):
    box = Toolbox.from_mcp_schema([SEARCH, bad, {"name": "ping"}])
    assert list(box) == ["search-files", "ping"]
    [left_out] = box.left_out
    assert reason in left_out.reason
    assert "is left out" in caplog.text


@pytest.mark.parametrize("name", ["mcp__" + "a" * 123, "files/read", "a.b/c-d_e"])
def test_names_that_mcp_allows_are_called(name):
    box = Toolbox.from_mcp_schema([{"name": name}, {"name": "other"}], call=lambda name, arguments: "done")
    result = Agent(ScriptedEngine([Call(name), Say("ok")]), tools=box).run_sync("Go")
    assert [call.name for call in result.calls] == [name]
    assert result.messages[2].content == "done"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        {},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"type": None},
        {"type": ["object", "null"]},
        {"type": "object", "properties": None, "required": None, "additionalProperties": None},
        {"properties": {"a": {"type": "integer", "enum": None, "description": None, "items": None}}},
        {"description": "Nothing is said of the type."},
        {"properties": {"a": {"type": "integer"}}},
        {"anyOf": [{"type": "string"}, {"type": "object"}]},
        {"$ref": "#/definitions/a", "definitions": {"a": {"properties": {"a": {"type": "integer"}}}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": {"a": {}}},
    ],
)
def test_arguments_are_an_object_whether_the_schema_says_so_or_not(schema):
    tool = Tool.from_schema(schema, name="next_tasks")
    assert tool.target.validator.check({}) == ()
    assert tool.target.validator.check({"a": 1}) == ()
    assert all(tool.target.validator.check(other) for other in ("a", 1, True, None, [], [{}]))
    assert tool.definition()["function"]["parameters"]["type"] == "object"


def test_mcp_unknown_keywords_are_listed_when_lenient():
    strange = {**SEARCH, "inputSchema": {"type": "object", "propertys": {}}}
    box = Toolbox.from_mcp_schema([strange], lenient=True)
    assert [item.pointer for item in box["search-files"].target.form.relaxed] == ["/propertys"]


def api(**changes):
    document = {
        "openapi": "3.0.3",
        "info": {"title": "Pets", "version": "1"},
        "paths": {
            "/owners/{owner}/pets": {
                "parameters": [{"$ref": "#/components/parameters/Owner"}],
                "get": {
                    "operationId": "listPets",
                    "summary": "Lists pets.",
                    "parameters": [
                        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 5}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                        {"name": "Accept", "in": "header", "schema": {"type": "string"}},
                        {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                    ],
                },
                "post": {
                    "requestBody": {"$ref": "#/components/requestBodies/NewPet"},
                },
            },
        },
        "components": {
            "parameters": {"Owner": {"name": "owner", "in": "path", "required": True, "schema": {"type": "string"}}},
            "requestBodies": {
                "NewPet": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                }
            },
            "schemas": {
                "Pet": {
                    "type": "object",
                    "required": ["id", "name"],
                    "properties": {
                        "id": {"type": "integer", "readOnly": True},
                        "name": {"type": "string", "example": "Rex"},
                        "mood": {"type": "string", "enum": ["calm", "wild"], "nullable": True},
                        "weight": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                        "parent": {"$ref": "#/components/schemas/Pet"},
                    },
                    "additionalProperties": False,
                },
            },
        },
    }
    return {**document, **changes}


def test_openapi_operations_become_tools():
    box = Toolbox.from_openapi(api())
    assert list(box) == ["listPets", "post_owners_owner_pets"]
    assert box["listPets"].description == "Lists pets."
    assert list(box["listPets"].target.form.schema["properties"]) == ["owner", "limit", "X-Trace"]
    assert box["listPets"].target.form.schema["required"] == ["owner"]


def test_openapi_requests_have_everything_in_its_place():
    box = Toolbox.from_openapi(api(), call=lambda request: request)
    made = run(box["listPets"], {"owner": "Ada & Co", "limit": 3, "X-Trace": "t"})
    assert made == OperationRequest(
        operation="listPets",
        method="GET",
        path="/owners/Ada%20%26%20Co/pets",
        query={"limit": 3},
        headers={"X-Trace": "t"},
        body=None,
    )
    made = run(box["post_owners_owner_pets"], {"owner": "a/b", "name": "Rex", "mood": None})
    assert (made.method, made.path, made.body) == ("POST", "/owners/a%2Fb/pets", {"name": "Rex", "mood": None})


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"owner": "a"}, "/name"),
        ({"owner": "a", "name": "b", "id": 1}, "/id"),
        ({"owner": "a", "name": "b", "weight": 0}, "/weight"),
        ({"owner": "a", "name": "b", "mood": "odd"}, "/mood"),
        ({"owner": "a", "name": "b", "parent": {"name": 1}}, "/parent/name"),
    ],
)
def test_openapi_body_is_validated(arguments, pointer):
    validator = Toolbox.from_openapi(api())["post_owners_owner_pets"].target.validator
    assert pointer in {violation.pointer for violation in validator.check(arguments)}


@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "string"}}, {"type": "object"}])
def test_openapi_other_bodies_are_one_argument(schema):
    paths = {
        "/tags": {"put": {"operationId": "tag", "requestBody": {"content": {"application/json": {"schema": schema}}}}}
    }
    box = Toolbox.from_openapi(api(openapi="3.1.0", paths=paths), call=lambda request: request.body)
    assert list(box["tag"].target.form.schema["properties"]) == ["body"]
    value = ["x"] if schema["type"] == "array" else {"x": 1}
    assert run(box["tag"], {"body": value}) == value
    assert run(box["tag"], {}) is None


def test_openapi_body_that_is_not_json():
    paths = {"/f": {"post": {"requestBody": {"content": {"image/png": {}}}}, "get": {}}}
    with pytest.raises(UnsupportedSchema, match="cannot be JSON"):
        Toolbox.from_openapi(api(paths=paths))
    assert list(Toolbox.from_openapi(api(paths=paths), lenient=True)) == ["get_f"]


@pytest.mark.parametrize(
    "document",
    [
        api(openapi="2.0"),
        {"swagger": "2.0", "paths": {}},
        api(paths={"/a": {"get": {"parameters": [{"$ref": "#/components/parameters/No"}]}}}),
        api(paths={"/a": {"get": {"parameters": [{"$ref": "other.json#/a"}]}}}),
        api(components={"schemas": {}}),
    ],
)
def test_openapi_documents_that_are_refused(document):
    with pytest.raises(UnsupportedSchema):
        Toolbox.from_openapi(document)


def test_openapi_two_operations_of_one_name():
    paths = {"/a": {"get": {"operationId": "a b"}}, "/b": {"get": {"operationId": "a?b"}}}
    with pytest.raises(DuplicateTool):
        Toolbox.from_openapi(api(paths=paths))


def test_an_agent_calls_what_a_server_describes():
    box = Toolbox.from_mcp_schema([SEARCH], call=lambda name, arguments: f"{name}: {arguments['kind']}")
    script = [Call("search-files", {"dir-name": "/a", "kind": "folder"}), Say("Done.")]
    result = Agent(ScriptedEngine(script), tools=box).run_sync("Where is it?")
    assert [call.arguments for call in result.calls] == [{"dir-name": "/a", "kind": "folder"}]
    assert "search-files: folder" in [message.content for message in result.messages]


class Person(BaseModel):
    """Somebody."""

    name: str
    born: date
    friends: list[Person] = []

    @model_validator(mode="after")
    def _is_named(self) -> Person:
        if not self.name:
            raise ValueError("nobody is called nothing")
        return self


def test_a_tool_of_a_pydantic_model_validates_by_it_and_runs_with_plain_json():
    seen = []
    tool = Tool.from_schema(Person, name="greet", call=lambda arguments: seen.append(arguments))
    assert tool.description == "Somebody."
    arguments = {"name": "Ada", "born": "1815-12-10", "friends": [{"name": "Bob", "born": "1800-01-01"}]}
    run(tool, arguments)
    assert seen == [arguments]
    with pytest.raises(CallRejected, match="nobody is called nothing"):
        run(tool, arguments | {"name": ""})
    assert "$defs" in tool.definition()["function"]["parameters"]  # the recursion is not cut off


def test_a_tool_of_a_schema_needs_an_object_and_a_call_to_run():
    with pytest.raises(UnsupportedSchema, match="'pick': its arguments are not an object"):
        Tool.from_schema({"type": "array"}, name="pick")
    with pytest.raises(ToolError, match="cannot be run"):
        run(Tool.from_schema({"type": "object"}, name="pick"), {})
