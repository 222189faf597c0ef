"""From the fields of a chat request to the turn that it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from agentform.agent.responder import ToolChoice
from agentform.messages import Message
from agentform.serve.answer_format import answer_format
from agentform.serve.chat_fields import (
    AssistantFields,
    ChatFields,
    MessageFields,
    PastCall,
    ResultFields,
    Text,
    ToolFields,
)
from agentform.serve.foreign_fields import require_no_slips
from agentform.serve.past import PastConversation
from agentform.serve.problems import bad_request
from agentform.serve.settings import ServerSettings
from agentform.serve.tool_choice import chosen
from agentform.serve.turn_request import AskedTool, TurnBudget, TurnRequest

__all__ = ["asked_tool", "chat_request", "past_messages"]


def chat_request(fields: ChatFields, settings: ServerSettings, *, thinks: bool = False) -> TurnRequest:
    """The turn. `thinks`: whether the model thinks between marks of its own.

    Raises:
        Refused: the request is none that can be served.
    """
    require_no_slips(fields)
    if fields.stream_options is not None and not fields.stream:
        raise bad_request("stream_options is only allowed with stream: true", param="stream_options")
    if fields.top_logprobs and not fields.logprobs:
        raise bad_request("top_logprobs is only allowed with logprobs: true", param="top_logprobs")
    stop, format = fields.stop or (), answer_format(fields)
    choice, allowed = chosen(fields.tool_choice, [tool.function.name for tool in fields.tools or ()])
    budget = _budget(fields, settings, choice, is_formed=bool(format.output or format.grammar), thinks=thinks)
    return TurnRequest(
        messages=past_messages(fields.messages, thinks=thinks),
        tools=tuple(map(asked_tool, fields.tools or ())),
        tool_choice=choice,
        allowed=allowed,
        output=format.output,
        grammar=format.grammar,
        limits=budget.limits(),
        reasoning=budget.reasoning(),
        sampling=fields.sampling(),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        conversation=(fields.metadata or {}).get("conversation_id") or fields.prompt_cache_key,
        logprobs=(fields.top_logprobs or 0) if fields.logprobs else None,
        num_answers=fields.n or 1,
    )


def asked_tool(tool: ToolFields) -> AskedTool:
    """A tool as any API tells of it."""
    said = tool.function
    return AskedTool(
        name=said.name, description=said.description or "", parameters=said.parameters, strict=bool(said.strict)
    )


def _budget(
    fields: ChatFields, settings: ServerSettings, choice: ToolChoice, *, is_formed: bool, thinks: bool
) -> TurnBudget:
    asked = {fields.max_tokens, fields.max_completion_tokens} - {None}
    if len(asked) > 1:
        raise bad_request("max_tokens and max_completion_tokens differ; give one of them", param="max_tokens")
    arguments = fields.chat_template_kwargs or {}
    silent = fields.reasoning_effort is None and arguments.get("enable_thinking") is False
    return TurnBudget(
        settings=settings,
        asked=asked.pop() if asked else None,
        effort=fields.reasoning_effort,
        text_tokens=0 if silent else None,
        template_arguments=arguments,
        choice=choice,
        may_call=bool(fields.tools) and choice != "none",
        is_formed=is_formed,
        parallel=bool(fields.parallel_tool_calls),
        thinks=thinks,
    )


def past_messages(messages: Sequence[MessageFields], *, thinks: bool = False) -> tuple[Message, ...]:
    """The conversation so far.

    Raises:
        Refused: for a result without its call.
    """
    past = PastConversation(thinks=thinks)
    for at, message in enumerate(messages):
        if isinstance(message, AssistantFields):
            called = enumerate(_calls_of(message))
            calls = [past.call(call.id, call.function.name, call.function.arguments, i) for i, call in called]
            content = _text(message.content) or message.refusal or ""
            past.assistant(content, calls, _text(message.reasoning_content))
        elif isinstance(message, ResultFields):
            param = f"messages[{at}].tool_call_id"
            past.result(message.tool_call_id, message.name, _text(message.content), param=param)
        else:
            past.say(message.role, _text(message.content))
    return past.whole("messages")


def _calls_of(message: AssistantFields) -> Sequence[PastCall]:
    legacy = message.function_call
    return message.tool_calls or ([] if legacy is None else [PastCall(function=legacy)])


def _text(content: Text | Sequence[object] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(getattr(part, "text", "") for part in content)
