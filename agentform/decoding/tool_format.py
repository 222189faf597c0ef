"""A conversation as the model's chat template takes it, calls and results in the model's own format.

For a model without tools in its template, they are listed in the system message, a call is
``<tool_call>\\n{"name": …, "arguments": …}\\n</tool_call>`` after the free text, and a result comes back as a user
message inside ``<tool_response>``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentform.decoding.formats.learn import learn_format
from agentform.decoding.formats.probe import TOOLS_HEAD, template_constants
from agentform.decoding.formats.rules import adapt_messages, adapt_tools
from agentform.decoding.formats.signatures import DEFAULT_FORMAT
from agentform.decoding.formats.types import Slot, ToolCallFormat
from agentform.decoding.formats.write import WrittenCall, calls_text
from agentform.messages import JsonValue, Message, ToolCall
from agentform.runtime.engine import Tokenizer
from agentform.schema.form import Choice, Fixed, Form, Node, Record
from agentform.schema.json_text import dumps, plain

__all__ = [
    "DEFAULT_FORMAT",
    "Prompt",
    "ToolCallFormat",
    "ToolText",
    "argument_lines",
    "call_text",
    "conversation",
    "format_of",
    "learn_format",
    "new_call_id",
]

_LISTED_OPTIONS = 50
_NINE = 9


@dataclass(frozen=True, kw_only=True)
class ToolText:
    """What the model is told of one tool."""

    name: str
    description: str
    form: Form


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """What `Tokenizer.render` takes."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    arguments: dict[str, Any]
    """The template's own arguments."""

    def ids(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Token ids up to where the model begins.

        Raises:
            InvalidRequest: the template refuses the messages.
        """
        return tokenizer.render(self.messages, tools=self.tools, arguments=self.arguments or None)


def format_of(tokenizer: Tokenizer) -> ToolCallFormat:
    """The format of the tokenizer's chat template, learned once."""
    if "format" not in tokenizer.learned:  # two threads may both learn it, which does no harm
        tokenizer.learned["format"] = learn_format(tokenizer)
    return tokenizer.learned["format"]


def conversation(
    format: ToolCallFormat,
    messages: Sequence[Message],
    *,
    instructions: str = "",
    tools: Sequence[ToolText] = (),
    arguments: Mapping[str, Any] | None = None,
) -> Prompt:
    """The conversation in Hugging Face layout, adapted to the template's rules.

    `arguments` are the template's own, such as `enable_thinking`.
    """
    system = instructions if format.lists_tools or not tools else _system(instructions, tools)
    wanted = bool(tools) or format.rules.needs_tools
    if tools and format.rules.tools_with_system:
        system = system or TOOLS_HEAD
    head = [{"role": "system", "content": system}] if system else []
    listed: list[Any] | None = None
    if format.lists_tools and wanted:
        listed = adapt_tools(format.rules, list(map(_definition, tools)))
    given = {**template_constants(format.rules), **(arguments or {})}
    name = format.rules.tools_argument
    if listed is not None and name != "tools":
        given[name] = dumps(plain(listed)) if format.rules.tools_as_text else listed
    return Prompt(
        messages=adapt_messages(format.rules, head + _messages(format, messages)),
        tools=listed if name == "tools" else None,
        arguments=given,
    )


def _messages(format: ToolCallFormat, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages themselves; where the format counts calls through the conversation, so is it done here."""
    num_calls, laid_out = 0, list[dict[str, Any]]()
    for message in messages:
        laid_out.append(_message(format, message, num_calls if format.layout.index == "conversation" else 0))
        num_calls += len(message.calls)
    return laid_out


def _message(format: ToolCallFormat, message: Message, first_index: int) -> dict[str, Any]:
    if message.role == "tool":
        result = message.result
        named = {"name": result.name, "tool_call_id": result.call_id} if result else {}
        return {"role": "tool", "content": message.content, **named}
    thought = {"reasoning_content": message.reasoning} if message.reasoning else {}
    if not message.calls:
        return {"role": message.role, "content": message.content, **thought}
    if format.renders_calls:
        calls = [_call(call) for call in message.calls]
        return {"role": "assistant", "content": message.content, "tool_calls": calls, **thought}
    written = [WrittenCall(name=call.name, arguments=call.arguments, id=call.id) for call in message.calls]
    text = calls_text(format, written, after_text=bool(message.content), first_index=first_index)
    return {"role": "assistant", "content": message.content + text, **thought}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": dict(call.arguments)}}


def new_call_id(format: ToolCallFormat, name: str, index: int) -> str:
    """An id in the form that the model's own ids have; `index` counts calls as the format does."""
    if Slot.INDEX in format.layout.call and format.layout.opening.endswith("functions."):
        return f"functions.{name}:{index}"
    return uuid.uuid4().hex[:_NINE] if format.rules.ids == "nine" else f"call_{uuid.uuid4().hex[:12]}"


def call_text(format: ToolCallFormat, name: str, arguments: Mapping[str, JsonValue]) -> str:
    """A turn's only call as the model writes it."""
    return calls_text(format, [WrittenCall(name=name, arguments=arguments, id=new_call_id(format, name, 0))])


def _definition(tool: ToolText) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.form.schema}
    return {"type": "function", "function": function}


def _system(instructions: str, tools: Sequence[ToolText]) -> str:
    lines = [line for tool in tools for line in _tool_lines(tool)]
    listing = "You can call these tools:\n" + "\n".join(lines)
    return f"{instructions}\n\n{listing}" if instructions else listing


def _tool_lines(tool: ToolText) -> list[str]:
    arguments = argument_lines(tool.form)
    named = f"- {tool.name}: {tool.description}".rstrip(": ")
    return [named, *("  " + line for line in arguments.splitlines())]


def argument_lines(form: Form) -> str:
    """The form's fields for a prompt, one line each: name, description, options where they are few."""
    fields = form.root.fields if isinstance(form.root, Record) else ()
    return "\n".join(f"- {_argument(field.name, field.node)}" for field in fields)


def _argument(name: str, node: Node) -> str:
    described = f"{name}: {node.description}".rstrip(": ")
    if isinstance(node, Choice) and len(node.options) <= _LISTED_OPTIONS:
        return f"{described} ({', '.join(dumps(option) for option in node.options)})"
    if isinstance(node, Fixed):
        return f"{described} ({dumps(node.value)})"
    return described
