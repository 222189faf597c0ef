"""OpenAPI documents as operations whose arguments are one object each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import SchemaDict, is_annotation
from agentform.messages import JsonValue
from agentform.schema.form import Path, pointer
from agentform.schema.json_text import plain
from agentform.tools.openapi_schema import Rewriter

__all__ = ["OpenAPIOperation", "OperationRequest", "operations"]

ArgumentLocation: TypeAlias = Literal["path", "query", "header", "body", "whole body"]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_PLACES: tuple[ArgumentLocation, ...] = ("path", "query", "header")
_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
_MERGES = frozenset({"type", "properties", "required", "additionalProperties"})
_MAX_NAME_CHARS = 128


@dataclass(frozen=True, kw_only=True)
class OperationRequest:
    """One call of an operation, ready for an HTTP client."""

    operation: str
    method: str
    """In capitals."""
    path: str
    """Its parameters filled in and escaped; without the server's address."""
    query: Mapping[str, JsonValue]
    headers: Mapping[str, JsonValue]
    body: JsonValue | None
    """What goes out as JSON; `None` for no body."""


@dataclass(frozen=True, kw_only=True)
class OpenAPIOperation:
    """One operation of a document."""

    name: str
    description: str
    schema: SchemaDict
    """Its arguments: parameters and JSON body as one object."""
    method: str
    path: str
    places: Mapping[str, ArgumentLocation] = field(default_factory=dict[str, ArgumentLocation])
    """Where each argument belongs."""

    def request(self, arguments: Mapping[str, JsonValue]) -> OperationRequest:
        """Put the arguments where they belong."""
        parts: dict[ArgumentLocation, dict[str, JsonValue]] = {
            "path": {},
            "query": {},
            "header": {},
            "body": {},
            "whole body": {},
        }
        for name, value in arguments.items():
            parts[self.places.get(name, "body")][name] = value
        body: JsonValue | None = parts["body"] or None
        if parts["whole body"]:
            body = next(iter(parts["whole body"].values()))
        elif "body" in self.places.values() and body is None:
            body = {}
        return OperationRequest(
            operation=self.name,
            method=self.method.upper(),
            path=re.sub(r"\{([^}]*)\}", lambda found: _segment(parts["path"].get(found.group(1), "")), self.path),
            query=parts["query"],
            headers=parts["header"],
            body=body,
        )


def operations(document: Mapping[str, Any], *, lenient: bool = False) -> tuple[OpenAPIOperation, ...]:
    """The operations of an OpenAPI 3.0 or 3.1 document, in its order.

    An operation is named by its `operationId`, or by method and path. In that, each run of characters other than
    letters, digits, `_`, `-` and `.` becomes one `_`; `_` at the ends goes; 128 characters stay.

    Arguments are the parameters in path, query and header (not cookies), and the properties of a JSON body. A body
    that is no plain object, or shares a name with a parameter, is the one argument `body`.

    With `lenient`, operations whose body cannot be JSON are left out.

    Raises:
        UnsupportedSchema: for them otherwise, for other versions, and for references that lead nowhere.
    """
    source: Any = plain(document)
    version = str(source.get("openapi", source.get("swagger", "none")))
    if not version.startswith(("3.0", "3.1")):
        raise UnsupportedSchema(f"OpenAPI 3.0 and 3.1 are supported, not {version!r}")
    reader = _OpenAPIReader(source, version)
    return tuple(made for made in reader.operations(lenient) if made is not None)


class _OpenAPIReader:
    def __init__(self, document: Any, version: str) -> None:
        self._document = document
        self._rewriter = Rewriter(document, version)

    def operations(self, lenient: bool) -> Iterator[OpenAPIOperation | None]:
        for path, item in self._document.get("paths", {}).items():
            shared = self._rewriter.resolved(item)
            for method in _METHODS:
                if method in shared:
                    yield self._operation(path, method, shared, lenient)

    def _operation(self, path: str, method: str, shared: Any, lenient: bool) -> OpenAPIOperation | None:
        said: Any = shared[method]
        where = ("paths", path, method)
        properties: SchemaDict = {}
        required: list[str] = []
        places: dict[str, ArgumentLocation] = {}
        for parameter in self._parameters(shared, said):
            name = parameter["name"]
            properties[name] = self._parameter_schema(parameter)
            places[name] = parameter["in"]
            if parameter.get("required") or parameter["in"] == "path":
                required.append(name)
        body = self._rewriter.resolved(said["requestBody"]) if "requestBody" in said else None
        if body is not None:
            content = _json_content(body)
            if content is None and lenient:
                return None
            if content is None:
                raise UnsupportedSchema("the body cannot be JSON", pointer=pointer((*where, "requestBody")))
            self._add_body(content.get("schema", {}), bool(body.get("required")), properties, required, places)
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return OpenAPIOperation(
            name=_name(said.get("operationId") or f"{method} {path}", where),
            description=_description(said),
            schema=self._rewriter.closed(schema),
            method=method,
            path=path,
            places=places,
        )

    def _parameters(self, shared: Any, said: Any) -> list[Any]:
        """Those of the operation and of its path; the operation's go first where both name one."""
        found: dict[tuple[str, str], Any] = {}
        for item in [*shared.get("parameters", ()), *said.get("parameters", ())]:
            parameter = self._rewriter.resolved(item)
            ignored = parameter["in"] == "header" and parameter["name"].lower() in _IGNORED_HEADERS
            if parameter["in"] in _PLACES and not ignored:
                found[parameter["in"], parameter["name"]] = parameter
        return list(found.values())

    def _parameter_schema(self, parameter: Any) -> Any:
        content = _json_content(parameter) or {}
        schema = self._rewriter.schema(parameter.get("schema", content.get("schema", {})))
        if isinstance(schema, dict) and parameter.get("description") and "$ref" not in schema:
            return {"description": parameter["description"], **schema}
        return schema

    def _add_body(
        self, said: Any, needed: bool, properties: SchemaDict, required: list[str], places: dict[str, ArgumentLocation]
    ) -> None:
        schema: Any = self._rewriter.schema(self._rewriter.resolved(said))
        if _is_plain_object(schema) and not schema["properties"].keys() & properties.keys():
            properties.update(schema["properties"])
            places.update(dict.fromkeys(schema["properties"], "body"))
            required += [name for name in schema.get("required", ()) if needed]
            return
        name = "body" if "body" not in properties else "request_body"
        properties[name] = self._rewriter.schema(said)
        places[name] = "whole body"
        required += [name] if needed else []


def _is_plain_object(schema: Any) -> bool:
    """Whether nothing is lost when its properties stand among others; an open object is closed by that."""
    if not isinstance(schema, dict) or not schema.get("properties"):
        return False
    words = {keyword for keyword in schema if not is_annotation(keyword)}
    named = set(schema.get("required", ())) <= set(schema["properties"])
    return named and words <= _MERGES and schema.get("additionalProperties", False) is False


def _json_content(holder: Any) -> Any:
    for kind, content in holder.get("content", {}).items():
        plain_kind = kind.partition(";")[0].strip()
        if plain_kind in ("application/json", "*/*") or plain_kind.endswith("+json"):
            return content
    return None


def _name(wanted: str, where: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", wanted).strip("_")[:_MAX_NAME_CHARS]
    if not name:
        raise UnsupportedSchema("the operation has no name that a tool can have", pointer=pointer(where))
    return name


def _description(said: Any) -> str:
    return "\n\n".join(text.strip() for text in (said.get("summary"), said.get("description")) if text)


def _segment(value: JsonValue) -> str:
    text = ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else _text(value)
    return quote(text, safe=",")


def _text(value: JsonValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
