"""From the fields of an Anthropic request to the turn that it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from agentform.agent.responder import ToolChoice
from agentform.messages import Message
from agentform.serve.answer_format import AnswerFormat, schema_format
from agentform.serve.messages_fields import MessagesFields, ResultBlock, SaidFields, TextBlock, ThinkingBlock, UseBlock
from agentform.serve.past import PastConversation
from agentform.serve.problems import bad_request
from agentform.serve.settings import ServerSettings
from agentform.serve.tool_choice import allows_parallel, chosen
from agentform.serve.turn_request import AskedTool, TurnBudget, TurnRequest

__all__ = ["messages_request"]

_EFFORTS = {"max": "xhigh"}


def messages_request(fields: MessagesFields, settings: ServerSettings, *, thinks: bool = False) -> TurnRequest:
    """The turn. `thinks`: whether the model thinks between marks of its own.

    Raises:
        Refused: the request is none that can be served.
    """
    choice, allowed = chosen(fields.tool_choice, [tool.name for tool in fields.tools or ()])
    format = _format(fields)
    tools = [
        AskedTool(name=t.name, description=t.description or "", parameters=t.input_schema, strict=bool(t.strict))
        for t in fields.tools or ()
    ]
    budget = _budget(fields, settings, choice, is_formed=format.output is not None, thinks=thinks)
    return TurnRequest(
        messages=_messages(fields, thinks=thinks),
        tools=tuple(tools),
        tool_choice=choice,
        allowed=allowed,
        output=format.output,
        limits=budget.limits(),
        reasoning=budget.reasoning(),
        sampling=fields.sampling(),
        stop=tuple(fields.stop_sequences or ()),
    )


def _budget(
    fields: MessagesFields, settings: ServerSettings, choice: ToolChoice, *, is_formed: bool, thinks: bool
) -> TurnBudget:
    """Without `thinking` there is no thought, as the API has it; the text before a call is another matter."""
    effort = fields.output_config.effort if fields.output_config is not None else None
    thinking = fields.thinking
    is_off = not fields.wants_thinking
    asked = choice if isinstance(choice, str) else None
    return TurnBudget(
        settings=settings,
        asked=fields.max_tokens,
        effort="none" if is_off else _EFFORTS.get(effort or "", effort),
        text_tokens=0 if asked is None else settings.reasoning_tokens,
        thought_tokens=0 if thinking is None or is_off else thinking.budget_tokens,
        template_arguments=fields.chat_template_kwargs,
        choice=choice,
        may_call=bool(fields.tools) and choice != "none",
        is_formed=is_formed,
        parallel=allows_parallel(fields.tool_choice),
        thinks=thinks,
    )


def _format(fields: MessagesFields) -> AnswerFormat:
    wanted = fields.output_config.format if fields.output_config is not None else None
    wanted, param = (fields.output_format, "output_format") if wanted is None else (wanted, "output_config.format")
    if wanted is None:
        return AnswerFormat()
    return schema_format(wanted.schema_, "answer", param=f"{param}.schema")


def _messages(fields: MessagesFields, *, thinks: bool) -> tuple[Message, ...]:
    past = PastConversation(thinks=thinks)
    system = fields.system
    if system:
        past.say("system", system if isinstance(system, str) else "\n\n".join(block.text for block in system))
    for at, message in enumerate(fields.messages):
        if isinstance(message.content, str):
            if message.role == "assistant":
                past.assistant(message.content)
            else:
                past.say(message.role, message.content)
        elif message.role == "assistant":
            _assistant(past, message)
        else:
            _user(past, message, at)
    return past.whole("messages")


def _assistant(past: PastConversation, message: SaidFields) -> None:
    blocks = message.content if not isinstance(message.content, str) else ()
    calls = [past.call(block.id, block.name, block.input) for block in blocks if isinstance(block, UseBlock)]
    thought = "\n\n".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    past.assistant(_text(blocks), calls, thought)


def _user(past: PastConversation, message: SaidFields, at: int) -> None:
    """Results, and what is said beside them."""
    blocks = message.content if not isinstance(message.content, str) else ()
    for number, block in enumerate(blocks):
        if isinstance(block, UseBlock):
            raise bad_request(
                "only the assistant uses tools", param=f"messages[{at}].content[{number}].type", code="invalid_value"
            )
        if isinstance(block, ResultBlock):
            said = block.content
            content = said or "" if isinstance(said, str | None) else _text(said)
            param = f"messages[{at}].content[{number}].tool_use_id"
            past.result(block.tool_use_id, None, content, param=param, is_error=bool(block.is_error))
    if any(isinstance(block, TextBlock) for block in blocks):
        past.say(message.role, _text(blocks))


def _text(blocks: Sequence[object]) -> str:
    return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
