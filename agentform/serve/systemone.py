"""`POST /v1/systemone`: typed questions about a state, each answered by itself, with probabilities and no text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentform.decoding.limits import Limits
from agentform.errors import InvalidInput
from agentform.forms.asked import Asked, Decisions
from agentform.forms.isolated import decide_isolated
from agentform.forms.label_prior import PriorStore
from agentform.forms.langchain_decider import DeciderSource
from agentform.forms.system_one import answer_body, asked_of, content_text
from agentform.forms.two_brains import decide_with
from agentform.messages import Usage
from agentform.serve.clients import Clients
from agentform.serve.decided_by import decided_by
from agentform.serve.exchange import Exchange
from agentform.serve.metrics import ServerMetrics
from agentform.serve.option_limit import require_few_options
from agentform.serve.parsing import parse
from agentform.serve.problems import Problem, Refused, bad_request, model_not_found
from agentform.serve.request_record import count_tokens
from agentform.serve.systemone_fields import (
    NoulQuestion,
    ScoreQuestion,
    SystemOneFields,
    SystemOneQuestion,
)

__all__ = ["SystemOneEndpoint", "model_entry"]


def model_entry(name: str) -> dict[str, str]:
    """The model as System One's clients list it; when its weights were released is not known here."""
    return {"name": name, "description": "The model that this server runs.", "release_date": "1970-01-01"}


@dataclass(frozen=True, kw_only=True)
class _FieldProblem(Problem):
    """A fault in a field as System One's clients read it: with its place, beside what OpenAI's read."""

    def body(self, path: str = "") -> dict[str, Any]:
        """The JSON that is sent."""
        detail = {"loc": ["body", *self.place], "msg": self.message, "type": self.code}
        return {**super().body(), "detail": [detail]}


def _as_field_problem(problem: Problem) -> Problem:
    if problem.status != 400 or problem.param is None:
        return problem
    place = problem.place or (problem.param,)
    return _FieldProblem(status=422, message=problem.message, code=problem.code, param=problem.param, place=place)


class SystemOneEndpoint:
    """Answers System One requests with the decision model, if there is one, and with `decide_isolated`."""

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
        state = content_text(fields.state)
        # One option alone is the answer, whatever the model says.
        open_ones = {name: question for name, question in questions.items() if len(question.told) > 1}
        engine = self._clients.of(exchange.request).engine

        async def work(exchange: Exchange) -> None:
            decisions = Decisions(decided={}, usage=Usage())
            if open_ones:
                own = partial(decide_isolated, engine, state, limits=Limits(), priors=self._priors)
                decisions = await decide_with(self._decider, engine, state, open_ones, own)
            count_tokens(exchange.request.scope, self._metrics, decisions.prompt_usage, decisions.usage)
            bodies = {
                name: answer_body(asked, _legend(fields.questions[name]), decisions.get(name))
                for name, asked in questions.items()
            }
            await exchange.answer(self._body(bodies, decisions) | decided_by(decisions))

        return work

    def _body(self, answers: Mapping[str, Any], decisions: Decisions) -> dict[str, Any]:
        used = decisions.prompt_usage
        return {
            "model": self._model,
            "answers": answers,
            "usage": {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens},
        }


def _asked(name: str, question: SystemOneQuestion) -> Asked:
    """The question; what its fields alone do not show to be wrong is named by its place."""
    try:
        return asked_of(name, question.model_dump())
    except InvalidInput as error:
        wrong = "instructions" if isinstance(question, NoulQuestion) else "criteria"
        place = ("questions", name, wrong)
        code = "missing_required_parameter" if wrong == "instructions" else "invalid_value"
        raise bad_request(str(error), param=".".join(place), code=code, place=place) from None


def _legend(question: SystemOneQuestion) -> Sequence[Any]:
    """The levels as they were given."""
    return question.criteria if isinstance(question, ScoreQuestion) else ()
