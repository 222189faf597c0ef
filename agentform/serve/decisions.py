"""`POST /v1/decisions`: typed questions about a text or conversation, all of them scored in one batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentform.decoding.limits import Limits
from agentform.forms.asked import Asked, Decision, Decisions, OneOf, YesNo
from agentform.forms.decisions import decide_together
from agentform.forms.label_prior import PriorStore
from agentform.forms.langchain_decider import DeciderSource
from agentform.forms.two_brains import decide_with
from agentform.messages import Message, ToolCall, ToolResult, Usage
from agentform.schema.json_text import dumps
from agentform.serve.clients import Clients
from agentform.serve.decided_by import decided_by
from agentform.serve.decision_fields import (
    CallFields,
    ChoiceFields,
    DecisionFields,
    InputFields,
    InputParts,
    OutputFields,
    PredicateFields,
    QuestionFields,
    ScoreFields,
)
from agentform.serve.exchange import Exchange
from agentform.serve.metrics import ServerMetrics
from agentform.serve.option_limit import require_few_options
from agentform.serve.parsing import parse
from agentform.serve.past_arguments import past_arguments
from agentform.serve.problems import bad_request, model_not_found
from agentform.serve.request_record import count_tokens

__all__ = ["DecisionEndpoint"]


@dataclass(frozen=True)
class _KeyedQuestion:
    """A question under the key by which the model sees it."""

    key: str
    fields: QuestionFields


class DecisionEndpoint:
    """Answers decision requests with the decision model, if there is one, and with `decide_together`."""

    def __init__(
        self,
        clients: Clients,
        priors: PriorStore,
        *,
        model: str,
        metrics: ServerMetrics,
        decider: DeciderSource | None = None,
    ) -> None:
        self._clients = clients
        self._decider = decider
        self._priors = priors
        self._model = model
        self._metrics = metrics

    def handler(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request.

        Raises:
            Refused: the request is none that can be served.
        """
        fields = parse(DecisionFields, body)
        if fields.model != self._model:
            raise model_not_found(fields.model, self._model)
        messages = _messages(fields.input)
        asked = _named(fields.questions)
        questions = {item.key: _question(item.fields, at) for at, item in enumerate(asked)}
        require_few_options(questions.values())
        instructions, said = _instructed(messages, questions)
        engine = self._clients.of(exchange.request).engine

        async def work(exchange: Exchange) -> None:
            own = partial(
                decide_together, engine, said, instructions=instructions, limits=Limits(), priors=self._priors
            )
            decisions = await decide_with(self._decider, engine, messages, questions, own)
            count_tokens(exchange.request.scope, self._metrics, decisions.prompt_usage, decisions.usage)
            await exchange.answer(self._body(asked, decisions) | decided_by(decisions))

        return work

    def _body(self, asked: Sequence[_KeyedQuestion], decisions: Decisions) -> dict[str, Any]:
        answers = [_answer(item.fields, decisions[item.key]) for item in asked]
        return {"model": self._model, "answers": answers, "usage": _usage(decisions.prompt_usage)}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _named(questions: Sequence[QuestionFields]) -> list[_KeyedQuestion]:
    """A key for each question: its name where it has one, and no key twice."""
    made: dict[str, _KeyedQuestion] = {}
    for at, fields in enumerate(questions):
        key = fields.name or f"answer_{at + 1}"
        while key in made:
            key += "_"
        made[key] = _KeyedQuestion(key, fields)
    return list(made.values())


def _question(fields: QuestionFields, at: int) -> YesNo | OneOf:
    said = _text(fields.instructions)
    match fields:
        case PredicateFields():
            return YesNo(said)
        case ChoiceFields():
            values = [choice.value for choice in fields.choices]
            described = [choice.description or "" for choice in fields.choices]
        case ScoreFields():
            values = [level.label for level in fields.levels]
            described = [level.description or "" for level in fields.levels]
    if len({(type(value), value) for value in values}) < len(values):
        where = "choices" if isinstance(fields, ChoiceFields) else "levels"
        raise bad_request("an option is given twice", param=f"questions[{at}].{where}")
    return OneOf(said, values, described)


def _answer(fields: QuestionFields, decision: Decision) -> dict[str, Any]:
    body: dict[str, Any] = {"type": fields.type, "name": fields.name}
    match fields:
        case PredicateFields():
            return body | {"probability": dict(decision.probabilities)[True]}
        case ChoiceFields():
            rows = [{"value": value, "probability": p} for value, p in decision.probabilities]
            return body | {"choice": decision.value, "confidence": decision.probability, "probabilities": rows}
        case ScoreFields():
            levels = list(enumerate(decision.probabilities))
            rows = [{"value": at, "label": label, "probability": p} for at, (label, p) in levels]
            score = sum(at * p for at, (_, p) in levels)
            return body | {"score": score, "confidence": decision.probability, "probabilities": rows}


def _messages(given: str | Sequence[InputFields]) -> list[Message]:
    if isinstance(given, str):
        return [Message(role="user", content=given)]
    names = {item.call_id: item.name for item in given if isinstance(item, CallFields)}
    made: list[Message] = []
    for at, item in enumerate(given):
        if isinstance(item, CallFields):
            made.append(Message(role="assistant", calls=(_call(item),)))
        elif isinstance(item, OutputFields):
            if item.call_id not in names:
                raise bad_request("call_id must be that of a function_call", param=f"input[{at}].call_id")
            result = ToolResult(call_id=item.call_id, name=names[item.call_id], content=_text(item.output))
            made.append(Message(role="tool", content=result.content, result=result))
        else:
            role = "system" if item.role == "developer" else item.role
            made.append(Message(role=role, content=_text(item.content)))
    if not made:
        raise bad_request("the input must hold at least one message", param="input")
    return made


def _instructed(messages: Sequence[Message], questions: Mapping[str, Asked]) -> tuple[str, Sequence[Message]]:
    """The instructions of the input and of the questions as one text, as templates know one only; and what follows."""
    num = next((at for at, message in enumerate(messages) if message.role != "system"), 0)
    lines = [f"- {key}: {question.schema()['description']}" for key, question in questions.items()]
    return "\n".join([*(message.content for message in messages[:num]), *lines]), messages[num:]


def _call(item: CallFields) -> ToolCall:
    return ToolCall(id=item.call_id, name=item.name, arguments=past_arguments(item.arguments))


def _text(parts: InputParts) -> str:
    if isinstance(parts, str):
        return parts
    return "\n".join(part.text if part.type != "input_json" else dumps(part.json_) for part in parts)
