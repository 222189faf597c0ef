"""LangChain's decision model over an engine of agentform: typed answers with probabilities, no token written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import anyio.to_thread
from langchain_core.decisions import (
    Answer,
    BaseDecisionModel,
    Box,
    Choice,
    ChoiceAnswer,
    ClassifierResponse,
    Content,
    Noul,
    NoulAnswer,
    Question,
    Score,
    ScoreAnswer,
    State,
)
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.messages import BaseMessage
from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from agentform import Decision, Engine, Limits, OneOf, PriorStore, Scoring, YesNo, decide
from agentform import Score as Rating
from langchain_agentform.blocking import run
from langchain_agentform.content import require_no_media, text_of
from langchain_agentform.engines import EngineSource, name_of
from langchain_agentform.errors import langchain_errors
from langchain_agentform.usage import usage_metadata

__all__ = ["AgentformDecisionModel"]


class AgentformDecisionModel(BaseDecisionModel):
    """Answers typed questions by scoring their options, all in one batch.

    A `Noul` is answered with the probability of yes, a `Choice` with the most probable label, a `Score` with the mean
    of its levels. Probabilities are among the options, with the model's leaning to one of them taken out; `confidence`
    is the probability of the most probable option. A `Box`, and media in the state, are refused.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    model: str = ""
    """What `agentform.load_engine` takes. With an engine, the engine's name."""
    engine: Engine | None = Field(default=None, exclude=True, repr=False)
    engine_options: dict[str, Any] = Field(default_factory=dict[str, Any], exclude=True, repr=False)
    timeout: float | None = None
    """Seconds for one call."""
    scoring: Scoring | None = Field(default=None, exclude=True, repr=False)
    priors: PriorStore = Field(default_factory=PriorStore, exclude=True, repr=False)

    _source: EngineSource = PrivateAttr()

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        self.model = name_of(self.engine, self.model)
        self._source = EngineSource(self.engine, self.model, self.engine_options)
        return self

    @property
    def _provider(self) -> str:
        return "agentform"

    def _classify(self, state: State, questions: dict[str, Question]) -> ClassifierResponse:
        return run(lambda: self._aclassify(state, questions))

    async def _aclassify(self, state: State, questions: dict[str, Question]) -> ClassifierResponse:
        if not questions:
            raise ModelInvalidRequestError("there is no question")
        asked = {name: made for name, question in questions.items() if (made := _asked(name, question)) is not None}
        response = ClassifierResponse(model=self.model, answers={})
        if asked:
            with langchain_errors():
                engine = await anyio.to_thread.run_sync(self._source.get)
                decided = await decide(
                    engine,
                    state_text(state),
                    asked,
                    instructions=_instructions({name: questions[name] for name in asked}),
                    limits=Limits(deadline_s=self.timeout),
                    scoring=self.scoring,
                    priors=self.priors,
                )
            response.usage = usage_metadata(decided.prompt_usage, decided.usage)
            response.answers = {name: _answer(questions[name], decided[name]) for name in asked}
        only = {name: _only(question) for name, question in questions.items() if isinstance(question, Choice)}
        response.answers = {name: response.answers.get(name) or only[name] for name in questions}
        return response


def state_text(state: State) -> str:
    """The state as the text that is judged: text as it is, messages as a transcript, all else as JSON.

    Raises:
        UnsupportedContent: the state holds media.
    """
    if isinstance(state, str):
        return state
    if isinstance(state, BaseMessage):
        return text_of(state.content, "the state")
    if isinstance(state, Sequence) and all(isinstance(item, BaseMessage) for item in state):
        return "\n".join(f"{item['role']}: {item['content']}" for item in _plain(state))
    return json.dumps(_plain(state), ensure_ascii=False, indent=1)


_ROLES = {"human": "user", "ai": "assistant"}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        return {"role": _ROLES.get(value.type, value.type), "content": text_of(value.content, "the state")}
    if isinstance(value, Mapping):
        block = cast("Mapping[str, Any]", value)
        require_no_media(block, "the state")
        return {str(key): _plain(item) for key, item in block.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    return value


def _asked(name: str, question: Question) -> YesNo | OneOf | Rating | None:
    """The question to score; `None` where there is one label alone, which needs no asking."""
    said = _said(question.instructions)
    match question:
        case Noul():
            return YesNo(said)
        case Choice():
            return OneOf(said, list(question.criteria)) if len(question.criteria) > 1 else None
        case Score():
            return Rating(said, least=0, most=len(question.criteria) - 1)
        case Box():
            raise ModelInvalidRequestError(f"question {name!r} asks for a box in an image; agentform reads text only")


def _instructions(questions: Mapping[str, Question]) -> str:
    """What each question asks and what its answers mean, one line each."""
    return "\n".join(
        f"- {name}: {_said(question.instructions)}{_meanings(question)}" for name, question in questions.items()
    )


def _meanings(question: Question) -> str:
    match question:
        case Noul():
            criteria = question.criteria
            meant = {} if criteria is None else {"true": criteria.true, "false": criteria.false}
        case Choice():
            meant = question.criteria
        case Score():
            meant = {str(level): said for level, said in enumerate(question.criteria)}
        case Box():
            meant = {}
    told = [f"{label}: {_said(said)}" for label, said in meant.items() if said is not None]
    return f" ({'; '.join(told)})" if told else ""


def _said(content: Content | Any) -> str:
    if isinstance(content, str):
        return " ".join(content.split())
    for block in cast("list[Any]", content) if isinstance(content, list) else [content]:
        if isinstance(block, Mapping):
            require_no_media(cast("Mapping[str, Any]", block), "a question")
    return json.dumps(content, ensure_ascii=False)


def _answer(question: Question, decision: Decision) -> Answer:
    found = list(decision.probabilities)
    match question:
        case Choice():
            by_label = {str(label): probability for label, probability in found}
            label = str(decision.value)
            return ChoiceAnswer(type="choice", choice=label, probabilities=by_label, confidence=_unit(by_label[label]))
        case Score():
            return ScoreAnswer(
                type="score",
                score=decision.expected,
                legend=dict(enumerate(question.criteria)),
                probabilities={int(str(level)): probability for level, probability in found},
                confidence=_unit(decision.probability),
            )
        case _:
            return NoulAnswer(type="noul", noul=_unit(dict(found)[True]))


def _only(question: Choice) -> ChoiceAnswer:
    label = next(iter(question.criteria))
    return ChoiceAnswer(type="choice", choice=label, probabilities={label: 1.0}, confidence=1.0)


def _unit(probability: float) -> float:
    """Sums of probabilities may be above one by a rounding error."""
    return min(1.0, probability)
