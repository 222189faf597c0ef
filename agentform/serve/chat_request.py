"""From the fields of a chat request to what a `Responder` takes."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentform.agent.responder import ToolChoice, UseTool
from agentform.decoding.limits import Limits
from agentform.errors import AgentformError, InvalidInput
from agentform.messages import JsonValue, Message, ToolCall, ToolResult
from agentform.runtime.engine import Sampling
from agentform.schema.json_text import loads
from agentform.schema.target import Target, load
from agentform.serve.chat_fields import (
    AssistantFields,
    ChatFields,
    MessageFields,
    NamedChoice,
    PastCall,
    SchemaAnswer,
    Text,
    ToolFields,
    ToolResultFields,
)
from agentform.serve.settings import ServerSettings
from agentform.serve.wire import Refused, bad_request, problem_of
from agentform.tools.toolset import Toolbox

__all__ = ["ChatRequest", "chat_request", "past_messages", "toolbox_of", "tools_key"]

_EFFORT_TOKENS = {"none": 0, "minimal": 16, "low": 64, "medium": 256, "high": 1024, "xhigh": 4096}
"""Free text before the decision to call, by `reasoning_effort`."""


_MOST_CALLS = 16
"""Calls of one turn, where a request allows several."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """One turn that a client asks for."""

    messages: tuple[Message, ...]
    tool_choice: ToolChoice
    output: Target | None
    limits: Limits
    sampling: Sampling
    stop: tuple[str, ...]
    conversation: str | None


def chat_request(fields: ChatFields, header: str | None, settings: ServerSettings) -> ChatRequest:
    """Everything but the tools. `header` is the conversation that the request's header names.

    Raises:
        Refused: the request is none that can be served.
    """
    if fields.stream_options is not None and not fields.stream:
        raise bad_request("stream_options is only allowed with stream: true", param="stream_options")
    stop = fields.stop or ()
    return ChatRequest(
        messages=tuple(past_messages(fields.messages)),
        tool_choice=_choice(fields),
        output=_output(fields),
        limits=_limits(fields, settings),
        sampling=_sampling(fields),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        conversation=header or (fields.metadata or {}).get("conversation_id") or fields.prompt_cache_key,
    )


def _sampling(fields: ChatFields) -> Sampling:
    seed = random.getrandbits(63) if fields.seed is None else fields.seed % 2**63
    return Sampling(temperature=fields.temperature or 0.0, top_p=fields.top_p or 1.0, seed=seed)


def _limits(fields: ChatFields, settings: ServerSettings) -> Limits:
    asked = {fields.max_tokens, fields.max_completion_tokens} - {None}
    if len(asked) > 1:
        raise bad_request("max_tokens and max_completion_tokens differ; give one of them", param="max_tokens")
    most = asked.pop() or settings.max_tokens if asked else settings.max_tokens
    return Limits(
        completion_tokens=most,
        reasoning_tokens=min(most, _reasoning_tokens(fields, settings)),
        answer_tokens=most,
        argument_tokens=most,
        parallel_calls=_MOST_CALLS if fields.parallel_tool_calls else 1,
    )


def _reasoning_tokens(fields: ChatFields, settings: ServerSettings) -> int:
    """Who names the tool has decided already: without an effort asked for, nothing is said before such a call."""
    if fields.reasoning_effort is not None:
        return _EFFORT_TOKENS[fields.reasoning_effort]
    return 0 if isinstance(fields.tool_choice, NamedChoice) else settings.reasoning_tokens


def _choice(fields: ChatFields) -> ToolChoice:
    names = [tool.function.name for tool in fields.tools or ()]
    choice = fields.tool_choice
    if isinstance(choice, NamedChoice):
        if choice.function.name not in names:
            said = f"; the tools are {', '.join(map(repr, names[:10]))}" if names else "; there are no tools"
            raise bad_request(f"tool_choice names no tool{said}", param="tool_choice.function.name")
        return UseTool(choice.function.name)
    if choice == "required" and not names:
        raise bad_request("tool_choice requires a call, but there are no tools", param="tool_choice")
    return choice or "auto"


def _output(fields: ChatFields) -> Target | None:
    wanted = fields.response_format
    if wanted is None or wanted.type == "text":
        return None
    if not isinstance(wanted, SchemaAnswer):
        return load({"type": "object"}, name="answer")
    said = wanted.json_schema
    schema = said.schema_ if said.description is None else {**said.schema_, "description": said.description}
    try:
        return load(schema, name=said.name, lenient=not said.strict)
    except AgentformError as error:
        raise Refused(problem_of(error, param="response_format.json_schema.schema")) from error


def tools_key(fields: ChatFields) -> str:
    """Equal for requests with equal tools."""
    return json.dumps([tool.model_dump() for tool in fields.tools or ()], sort_keys=False)


def toolbox_of(tools: Sequence[ToolFields]) -> Toolbox:
    """The tools of a request; nobody can run them here.

    Raises:
        Refused: the request is none that can be served.
    """
    made: dict[str, Toolbox] = {}
    for at, tool in enumerate(tools):
        said = tool.function
        described = {
            "name": said.name,
            "description": said.description or "",
            "inputSchema": said.parameters or {"type": "object", "properties": {}, "additionalProperties": False},
        }
        if said.name in made:
            raise bad_request(f"two tools are named {said.name!r}", param=f"tools[{at}].function.name")
        try:
            made[said.name] = Toolbox.from_mcp_schema([described], lenient=not said.strict)
        except AgentformError as error:
            raise Refused(problem_of(error, param=f"tools[{at}].function")) from error
    return Toolbox(tool for box in made.values() for tool in box.values())


def past_messages(messages: Sequence[MessageFields]) -> list[Message]:
    """The conversation so far.

    Raises:
        Refused: for a result without its call and for arguments that are no object.
    """
    made: list[Message] = []
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        if isinstance(message, AssistantFields):
            calls = tuple(_call(call, f"messages[{at}].tool_calls[{i}]") for i, call in enumerate(_calls(message)))
            names |= {call.id: call.name for call in calls}
            content = _text(message.content) or message.refusal or ""
            made.append(Message(role="assistant", content=content, calls=calls))
        elif isinstance(message, ToolResultFields):
            made.append(_result(message, names, at))
        else:
            role = "user" if message.role == "user" else "system"
            made.append(Message(role=role, content=_text(message.content)))
    if all(message.role == "system" for message in made):
        raise bad_request("there is no message to answer: at least one must not be the system's", param="messages")
    return made


def _calls(message: AssistantFields) -> Sequence[PastCall]:
    return message.tool_calls or ()


def _call(call: PastCall, param: str) -> ToolCall:
    arguments: Mapping[str, JsonValue] | JsonValue
    try:
        arguments = loads(call.function.arguments or "{}")
    except InvalidInput as error:
        raise bad_request(f"the arguments are {error}", param=f"{param}.function.arguments") from error
    if not isinstance(arguments, Mapping):
        raise bad_request("the arguments must be a JSON object", param=f"{param}.function.arguments")
    return ToolCall(id=call.id, name=call.function.name, arguments=arguments)


def _result(message: ToolResultFields, names: Mapping[str, str], at: int) -> Message:
    if message.tool_call_id not in names:
        raise bad_request(
            "tool_call_id must be the id of a call in an earlier assistant message",
            param=f"messages[{at}].tool_call_id",
        )
    content = _text(message.content)
    result = ToolResult(call_id=message.tool_call_id, name=names[message.tool_call_id], content=content)
    return Message(role="tool", content=content, result=result)


def _text(content: Text | Sequence[object] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(getattr(part, "text", "") for part in content)
