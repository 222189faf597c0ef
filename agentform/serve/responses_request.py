"""From the fields of a Responses request to the turn that it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from agentform.messages import Message, ToolCall
from agentform.serve.answer_format import AnswerFormat, schema_format
from agentform.serve.past import PastConversation
from agentform.serve.responses_fields import (
    CallItem,
    InputItem,
    MessageItem,
    PlainFormat,
    ReasoningItem,
    ResponsesFields,
    ResultItem,
    TextParts,
)
from agentform.serve.settings import ServerSettings
from agentform.serve.tool_choice import chosen
from agentform.serve.turn_request import AskedTool, TurnBudget, TurnRequest

__all__ = ["responses_request"]

_LOGPROBS = "message.output_text.logprobs"


def responses_request(
    fields: ResponsesFields, settings: ServerSettings, *, before: Sequence[Message] = (), thinks: bool = False
) -> TurnRequest:
    """The turn. `before` is the conversation that it goes on from; `thinks`: whether the model thinks between marks.

    Raises:
        Refused: the request is none that can be served.
    """
    choice, allowed = chosen(fields.tool_choice, [tool.name for tool in fields.tools or ()])
    format = _format(fields)
    reasoning = fields.reasoning
    tools = [
        AskedTool(name=t.name, description=t.description or "", parameters=t.parameters, strict=bool(t.strict))
        for t in fields.tools or ()
    ]
    budget = TurnBudget(
        settings=settings,
        asked=fields.max_output_tokens,
        effort=reasoning.effort if reasoning is not None else None,
        template_arguments=fields.chat_template_kwargs,
        choice=choice,
        may_call=bool(tools) and choice != "none",
        is_formed=format.output is not None,
        parallel=bool(fields.parallel_tool_calls),
        thinks=thinks,
    )
    told = fields.top_logprobs is not None or _LOGPROBS in (fields.include or ())
    return TurnRequest(
        messages=_messages(fields, before, thinks=thinks),
        tools=tuple(tools),
        tool_choice=choice,
        allowed=allowed,
        output=format.output,
        limits=budget.limits(),
        reasoning=budget.reasoning(),
        sampling=fields.sampling(),
        conversation=(fields.metadata or {}).get("conversation_id") or fields.prompt_cache_key,
        logprobs=(fields.top_logprobs or 0) if told else None,
    )


def _format(fields: ResponsesFields) -> AnswerFormat:
    wanted = fields.text.format if fields.text is not None else None
    if wanted is None:
        return AnswerFormat()
    if isinstance(wanted, PlainFormat):
        is_text = wanted.type == "text"
        return AnswerFormat() if is_text else schema_format({"type": "object"}, "answer", param="text.format")
    return schema_format(
        wanted.schema_, wanted.name, wanted.description, strict=bool(wanted.strict), param="text.format.schema"
    )


def _messages(fields: ResponsesFields, before: Sequence[Message], *, thinks: bool) -> tuple[Message, ...]:
    told = [] if fields.instructions is None else [Message(role="system", content=fields.instructions)]
    past = PastConversation(before=[*told, *before], thinks=thinks)
    if isinstance(fields.input, str):
        past.say("user", fields.input)
        return past.whole("input")
    turn = _AssistantTurn(past)
    for at, item in enumerate(fields.input):
        if turn.takes(item):
            continue
        turn.end()
        if isinstance(item, ResultItem):
            past.result(item.call_id, None, _text(item.output), param=f"input[{at}].call_id")
        elif isinstance(item, MessageItem):
            past.say(item.role, _text(item.content))
    turn.end()
    return past.whole("input")


class _AssistantTurn:
    """Items that were one message of the model's: a thought, then text, then calls."""

    def __init__(self, past: PastConversation) -> None:
        self._past = past
        self._thought: list[str] = []
        self._text: list[str] = []
        self._calls: list[ToolCall] = []

    def takes(self, item: InputItem) -> bool:
        """Take in an item of the model's; whether it is one."""
        match item:
            case ReasoningItem():
                if self._text or self._calls:
                    self.end()
                self._thought += [part.text for part in item.content or item.summary or ()]
            case MessageItem(role="assistant"):
                if self._calls:
                    self.end()
                self._text.append(_text(item.content))
            case CallItem():
                self._calls.append(self._past.call(item.call_id, item.name, item.arguments))
            case _:
                return False
        return True

    def end(self) -> None:
        """The message is complete."""
        if self._thought or self._text or self._calls:
            self._past.assistant("\n\n".join(self._text), self._calls, "\n\n".join(self._thought))
        self._thought, self._text, self._calls = [], [], []


def _text(parts: TextParts) -> str:
    return parts if isinstance(parts, str) else "".join(part.text for part in parts)
