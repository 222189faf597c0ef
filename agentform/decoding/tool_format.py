"""How a model writes a call: learned from its chat template, or one documented default.

The learned frame is what the template itself renders around a sentinel call, so a call that agentform writes is
byte for byte what the template renders in the next turn and the prefix cache keeps hitting.

A model without a tool template, or with one whose calls are not JSON objects, gets the default frame: tools are
listed in the system message, a call is ``<tool_call>\\n{"name": …, "arguments": …}\\n</tool_call>`` after the free
text, and a result comes back as a user message inside ``<tool_response>``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentform.messages import Message, ToolCall
from agentform.runtime.engine import Tokenizer
from agentform.schema.form import Choice, Fixed, Form, Node, Record
from agentform.schema.json_text import dumps

__all__ = ["DEFAULT_FRAME", "Frame", "ToolText", "argument_lines", "learn_frame"]


@dataclass(frozen=True, kw_only=True)
class ToolText:
    """What the model is told of one tool."""

    name: str
    description: str
    form: Form


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The fixed text around a call's name and arguments."""

    before_name: str
    before_arguments: str
    after_arguments: str
    separator: str = "\n"
    """Between the free text and the first call; nothing stands there when there is no free text."""
    between_calls: str = "\n"
    step_lead: str = ""
    """Line on which the next step is chosen, for models that do not know the frame; empty: at the name's place."""
    native: bool = False
    """Whether the chat template renders tools, calls and results itself."""

    @property
    def marker(self) -> str:
        """Where free text ends and a call begins: the first line, or all, of what stands before the name."""
        return self.before_name.split("\n", 1)[0]

    def call_text(self, name: str, arguments: str) -> str:
        """A whole call; `arguments` is JSON text."""
        return self.before_name + name + self.before_arguments + arguments + self.after_arguments

    def messages(
        self, messages: Sequence[Message], *, instructions: str = "", tools: Sequence[ToolText] = ()
    ) -> list[dict[str, Any]]:
        """The conversation in Hugging Face layout, ready for `Tokenizer.render`."""
        system = instructions if self.native or not tools else _system(instructions, tools)
        head = [{"role": "system", "content": system}] if system else []
        return head + [self._message(message) for message in messages]

    def definitions(self, tools: Sequence[ToolText]) -> list[dict[str, Any]] | None:
        """The tools as the chat template wants them; `None` when the template does not render tools."""
        return [_definition(tool) for tool in tools] if self.native and tools else None

    def _message(self, message: Message) -> dict[str, Any]:
        if message.role == "tool":
            return self._result(message)
        if not message.calls:
            return {"role": message.role, "content": message.content}
        if self.native:
            calls = [_native_call(call) for call in message.calls]
            return {"role": "assistant", "content": message.content, "tool_calls": calls}
        calls = [self.call_text(call.name, dumps(call.arguments)) for call in message.calls]
        separator = self.separator if message.content else ""
        return {"role": "assistant", "content": message.content + separator + self.between_calls.join(calls)}

    def _result(self, message: Message) -> dict[str, Any]:
        result = message.result
        if self.native:
            named = {"name": result.name, "tool_call_id": result.call_id} if result else {}
            return {"role": "tool", "content": message.content, **named}
        return {"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"}


DEFAULT_FRAME = Frame(
    before_name='<tool_call>\n{"name": "',
    before_arguments='", "arguments": ',
    after_arguments="}\n</tool_call>",
    step_lead="Next step:",
)


def _native_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": dict(call.arguments)}
    return {"type": "function", "id": call.id, "function": function}


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


_LISTED_OPTIONS = 50
_NAME, _KEY, _VALUE, _TEXT = "sentinel_name", "sentinel_key", "sentinel_value", "Sentinel text."


def learn_frame(tokenizer: Tokenizer) -> Frame:
    """The frame that the model's chat template writes, or `DEFAULT_FRAME`."""
    if not tokenizer.has_tool_template:
        return DEFAULT_FRAME
    arguments = dumps({_KEY: _VALUE})
    alone = _between(tokenizer, "", 1)
    call = alone.split(arguments)
    if len(call) != 2 or call[0].count(_NAME) != 1:
        return DEFAULT_FRAME
    before_name, before_arguments = call[0].split(_NAME)
    one = Frame(before_name=before_name, before_arguments=before_arguments, after_arguments=call[1], native=True)
    return _with_separators(tokenizer, one, one.call_text(_NAME, arguments))


def _with_separators(tokenizer: Tokenizer, frame: Frame, call: str) -> Frame:
    after_text = _between(tokenizer, _TEXT, 1)
    twice = _between(tokenizer, "", 2)
    if not after_text.endswith(call) or not (twice.startswith(call) and twice.endswith(call)):
        return DEFAULT_FRAME
    return Frame(
        before_name=frame.before_name,
        before_arguments=frame.before_arguments,
        after_arguments=frame.after_arguments,
        separator=after_text[: -len(call)].removeprefix(_TEXT),
        between_calls=twice[len(call) : -len(call)],
        native=True,
    )


def _between(tokenizer: Tokenizer, content: str, num_calls: int) -> str:
    """What the template writes for an assistant turn with `num_calls` sentinel calls, its frame taken off."""
    function = {"name": _NAME, "arguments": {_KEY: _VALUE}}
    calls = [{"type": "function", "id": f"call_{i}", "function": function} for i in range(num_calls)]
    user: Mapping[str, Any] = {"role": "user", "content": "x"}
    parameters: dict[str, Any] = {"type": "object", "properties": {_KEY: {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": _NAME, "description": "", "parameters": parameters}}]
    with_calls = {"role": "assistant", "content": content, "tool_calls": calls}
    plain = {"role": "assistant", "content": _TEXT}
    called = tokenizer.render_text([user, with_calls], tools=tools, generation_prompt=False)
    spoken = tokenizer.render_text([user, plain], tools=tools, generation_prompt=False)
    start, end = spoken.index(_TEXT), len(spoken) - spoken.index(_TEXT) - len(_TEXT)
    return called[start : len(called) - end]
