"""`POST /v1/systemone`: typed questions about a state, each answered by itself, with probabilities and no text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentform.decoding.limits import Limits
from agentform.forms.decisions import Asked, Decision, Decisions, OneOf, Score, YesNo
from agentform.forms.isolated import decide_isolated
from agentform.forms.label_prior import PriorStore
from agentform.messages import Usage
from agentform.schema.json_text import text_or_json
from agentform.serve.clients import Clients
from agentform.serve.exchange import Exchange
from agentform.serve.metrics import ServerMetrics
from agentform.serve.option_limit import require_few_options
from agentform.serve.parsing import parse
from agentform.serve.problems import Problem, Refused, bad_request, model_not_found
from agentform.serve.systemone_fields import (
    ChoiceQuestion,
    NoulCriteria,
    NoulQuestion,
    ScoreQuestion,
    SystemOneFields,
    SystemOneQuestion,
    Told,
)

__all__ = ["SystemOneEndpoint", "model_entry"]


def model_entry(name: str) -> dict[str, str]:
    """The model as System One's clients list it; when its weights were released is not known here."""
    return {"name": name, "description": "The model that this server runs.", "release_date": "1970-01-01"}


@dataclass(frozen=True, kw_only=True)
class _FieldProblem(Problem):
    """A fault in a field as System One's clients read it: with its place, beside what OpenAI's read."""

    def body(self) -> dict[str, Any]:
        """The JSON that is sent."""
        detail = {"loc": ["body", *self.place], "msg": self.message, "type": self.code}
        return {**super().body(), "detail": [detail]}


def _as_field_problem(problem: Problem) -> Problem:
    if problem.status != 400 or problem.param is None:
        return problem
    place = problem.place or (problem.param,)
    return _FieldProblem(status=422, message=problem.message, code=problem.code, param=problem.param, place=place)


class SystemOneEndpoint:
    """Answers System One requests with `decide_isolated`."""

    def __init__(self, clients: Clients, priors: PriorStore, *, model: str, metrics: ServerMetrics) -> None:
        self._clients = clients
        self._priors = priors
        self._model = model
        self._metrics = metrics

    def handler(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request.

        Raises:
            Refused: the request is none that can be served.
        """
        try:
            return self._work(body, exchange)
        except Refused as refused:
            raise Refused(_as_field_problem(refused.problem)) from None

    def _work(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        fields = parse(SystemOneFields, body)
        if fields.model != self._model:
            raise model_not_found(fields.model, self._model)
        questions = {name: _asked(name, question) for name, question in fields.questions.items()}
        require_few_options(questions.values())
        state = _text(fields.state)
        # One option alone is the answer, whatever the model says.
        open_ones = {name: question for name, question in questions.items() if len(question.told) > 1}
        engine = self._clients.of(exchange.request).engine

        async def work(exchange: Exchange) -> None:
            decisions = Decisions(decided={}, usage=Usage())
            if open_ones:
                decisions = await decide_isolated(engine, state, open_ones, limits=Limits(), priors=self._priors)
            self._metrics.tokens(decisions.prompt_usage, decisions.usage)
            await exchange.answer(self._body(fields.questions, decisions))

        return work

    def _body(self, questions: Mapping[str, SystemOneQuestion], decisions: Decisions) -> dict[str, Any]:
        used = decisions.prompt_usage
        return {
            "model": self._model,
            "answers": {name: _answer(question, decisions.get(name)) for name, question in questions.items()},
            "usage": {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens},
        }


def _text(content: Told | None) -> str:
    if content is None:
        return ""
    return text_or_json(content)


def _asked(name: str, question: SystemOneQuestion) -> Asked:
    said = _text(question.instructions)
    match question:
        case NoulQuestion():
            criteria = question.criteria or NoulCriteria()
            yes, no = _text(criteria.true), _text(criteria.false)
            if not (said or yes or no):
                place = ("questions", name, "instructions")
                message = f"question {name!r} needs instructions, or criteria that say what is yes or no"
                raise bad_request(message, param=".".join(place), code="missing_required_parameter", place=place)
            return YesNo(said, yes, no)
        case ChoiceQuestion():
            options = _options(name, question)
            return OneOf(said, list(options), [_text(note) for note in options.values()])
        case ScoreQuestion():
            return Score(said, least=0, levels=[_text(level) for level in question.criteria])


def _options(name: str, question: ChoiceQuestion) -> Mapping[str, Told | None]:
    """The options with what is said of each."""
    if isinstance(question.criteria, dict):
        return question.criteria
    options = dict.fromkeys(question.criteria)
    if len(options) < len(question.criteria):
        place = ("questions", name, "criteria")
        raise bad_request("an option is given twice", param=".".join(place), place=place)
    return options


def _answer(question: SystemOneQuestion, decision: Decision | None) -> dict[str, Any]:
    match question:
        case NoulQuestion():
            return {"type": "noul", "noul": _unit(_probabilities(decision)["true"])}
        case ChoiceQuestion():
            return {"type": "choice"} | _choice(question, decision)
        case ScoreQuestion():
            rows = _probabilities(decision)
            return {
                "type": "score",
                "score": sum(int(level) * probability for level, probability in rows.items()),
                "confidence": _unit(max(rows.values())),
                "legend": {str(at): level for at, level in enumerate(question.criteria)},
                "probabilities": rows,
            }


def _choice(question: ChoiceQuestion, decision: Decision | None) -> dict[str, Any]:
    if decision is None:
        [only] = question.criteria
        return {"choice": only, "confidence": 1.0, "probabilities": {only: 1.0}}
    return {
        "choice": decision.value,
        "confidence": _unit(decision.probability),
        "probabilities": _probabilities(decision),
    }


def _probabilities(decision: Decision | None) -> dict[str, float]:
    rows = () if decision is None else decision.probabilities
    return {text_or_json(option): _unit(p) for option, p in rows}


def _unit(probability: float) -> float:
    """Sums of probabilities may be above one by a rounding error."""
    return min(1.0, probability)
