"""From the fields of a chat request to what a `Responder` takes."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentform.agent.responder import ToolChoice, UseTool
from agentform.decoding.limits import Limits
from agentform.errors import AgentformError, InvalidToolName
from agentform.messages import Message, ToolCall, ToolResult
from agentform.runtime.engine import Sampling
from agentform.schema.json_text import loads
from agentform.schema.target import Target, load
from agentform.serve.chat_fields import (
    AssistantFields,
    ChatFields,
    FunctionFields,
    MessageFields,
    NamedChoice,
    PastCall,
    ResultFields,
    SchemaAnswer,
    Text,
    ToolFields,
)
from agentform.serve.foreign_fields import require_no_slips
from agentform.serve.past_arguments import past_arguments
from agentform.serve.problems import Refused, bad_request, problem_of
from agentform.serve.settings import ServerSettings
from agentform.tools.tool import Tool
from agentform.tools.toolset import Toolbox
from agentform.turn.reasoning import Reasoning

__all__ = ["ChatRequest", "chat_request", "past_messages", "toolbox_of", "tools_key"]

_EFFORT_TOKENS = {"none": 0, "minimal": 16, "low": 64, "medium": 256, "high": 1024, "xhigh": 4096}
"""Free text before the decision to call, by `reasoning_effort`."""


_THOUGHT_TOKENS = {"none": 0, "minimal": 128, "low": 512, "medium": 2048, "high": 8192, "xhigh": 16384}
"""A thought between a model's own marks, by `reasoning_effort`."""
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
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
    reasoning: Reasoning


def chat_request(fields: ChatFields, header: str | None, settings: ServerSettings) -> ChatRequest:
    """Everything but the tools. `header` is the conversation that the request's header names.

    Raises:
        Refused: the request is none that can be served.
    """
    require_no_slips(fields)
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
        reasoning=_reasoning(fields, settings),
    )


def _reasoning(fields: ChatFields, settings: ServerSettings) -> Reasoning:
    """How a model thinks that was trained to: `reasoning_effort`, and the template's own arguments."""
    effort = fields.reasoning_effort
    tokens = _THOUGHT_TOKENS[effort or "medium"]
    arguments = fields.chat_template_kwargs or {}
    return Reasoning(effort=effort, max_tokens=min(tokens, settings.max_tokens), template_arguments=arguments)


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
    if (fields.chat_template_kwargs or {}).get("enable_thinking") is False:
        return 0
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
    if wanted is None:
        return _guided(fields)
    if wanted.type == "text":
        return None
    if not isinstance(wanted, SchemaAnswer):
        return _form_of(wanted.schema_ or {"type": "object"}, "response_format.schema")
    said = wanted.json_schema
    schema = said.schema_ if said.description is None else {**said.schema_, "description": said.description}
    return _form_of(schema, "response_format.json_schema.schema", name=said.name, lenient=not said.strict)


def _guided(fields: ChatFields) -> Target | None:
    """The form of an answer whose schema is given as other servers take it."""
    given = {
        "guided_json": fields.guided_json,
        "structured_outputs.json": (fields.structured_outputs or {}).get("json"),
        "json_schema": fields.json_schema,
    }
    param, schema = next(((key, value) for key, value in given.items() if value is not None), ("", None))
    return None if schema is None else _form_of(schema, param)


def _form_of(schema: Any, param: str, *, name: str = "answer", lenient: bool = True) -> Target:
    """The form of a schema, which may be JSON text.

    Raises:
        Refused: it is none; `param` is where it was given.
    """
    try:
        return load(loads(schema) if isinstance(schema, str) else schema, name=name, lenient=lenient)
    except AgentformError as error:
        raise Refused(problem_of(error, param=param)) from error


def tools_key(fields: ChatFields) -> str:
    """Equal for requests with equal tools."""
    return json.dumps([_known(tool) for tool in fields.tools or ()], sort_keys=False)


def _known(tool: ToolFields) -> dict[str, Any]:
    function = tool.function.model_dump(include=set(FunctionFields.model_fields))
    return {"type": tool.type, "function": function}


def toolbox_of(tools: Sequence[ToolFields]) -> Toolbox:
    """The tools of a request; nobody can run them here.

    Raises:
        Refused: the request is none that can be served.
    """
    made: dict[str, Tool[..., Any]] = {}
    for at, tool in enumerate(tools):
        said = tool.function
        if said.name in made:
            raise bad_request(f"two tools are named {said.name!r}", param=f"tools[{at}].function.name")
        try:
            made[said.name] = Tool.from_schema(
                said.parameters or _NO_ARGUMENTS,
                name=said.name,
                description=said.description or "",
                lenient=not said.strict,
            )
        except InvalidToolName as error:
            raise Refused(problem_of(error, param=f"tools[{at}].function.name")) from error
        except AgentformError as error:
            raise Refused(problem_of(error, param=f"tools[{at}].function.parameters")) from error
    return Toolbox(made.values())


def past_messages(messages: Sequence[MessageFields]) -> list[Message]:
    """The conversation so far.

    Raises:
        Refused: for a result without its call.
    """
    made: list[Message] = []
    open_calls: list[ToolCall] = []
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        if isinstance(message, AssistantFields):
            open_calls = [_call(call, f"call_{at}_{i}") for i, call in enumerate(_calls_of(message))]
            names |= {call.id: call.name for call in open_calls}
            content = _text(message.content) or message.refusal or ""
            thought = _text(message.reasoning_content)
            made.append(Message(role="assistant", content=content, calls=tuple(open_calls), reasoning=thought))
        elif isinstance(message, ResultFields):
            made.append(_result(message, _answered(message, open_calls, at), names, at))
        else:
            role = "user" if message.role == "user" else "system"
            made.append(Message(role=role, content=_text(message.content)))
    if all(message.role == "system" for message in made):
        raise bad_request("there is no message to answer: at least one must not be the system's", param="messages")
    return made


def _calls_of(message: AssistantFields) -> Sequence[PastCall]:
    legacy = message.function_call
    return message.tool_calls or ([] if legacy is None else [PastCall(function=legacy)])


def _call(call: PastCall, new_id: str) -> ToolCall:
    said = call.function
    return ToolCall(id=call.id or new_id, name=said.name, arguments=past_arguments(said.arguments))


def _answered(message: ResultFields, open_calls: list[ToolCall], at: int) -> str:
    """The id of the call that a result answers: the one it names, or else the next of its tool that has none.

    Raises:
        Refused: there is none.
    """
    named = message.tool_call_id
    found = next((call for call in open_calls if named in (None, call.id) and message.name in (None, call.name)), None)
    if found is not None:
        open_calls.remove(found)
    if named is None and found is None:
        raise bad_request("a result needs the tool_call_id of its call", param=f"messages[{at}].tool_call_id")
    return named if named is not None else found.id if found else ""


def _result(message: ResultFields, call_id: str, names: Mapping[str, str], at: int) -> Message:
    if call_id not in names:
        raise bad_request(
            "tool_call_id must be the id of a call in an earlier assistant message",
            param=f"messages[{at}].tool_call_id",
        )
    content = _text(message.content)
    result = ToolResult(call_id=call_id, name=names[call_id], content=content)
    return Message(role="tool", content=content, result=result)


def _text(content: Text | Sequence[object] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(getattr(part, "text", "") for part in content)
