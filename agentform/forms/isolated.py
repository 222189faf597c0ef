"""Questions that are asked of the same text each by itself: none sees the others, and none the name it goes by.

The text stands first and its question after it, so that the engine reads the text once and finds it in its cache for
every further question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from agentform._util.gather import at_once
from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.limits import Limits
from agentform.decoding.prompt_work import OPTION_CHARACTERS, check_fits, prompt_work
from agentform.decoding.session import Session
from agentform.forms.answer import Answer, Question
from agentform.forms.asked import Asked, Decision, Decisions, require_options
from agentform.forms.decisions import decision_of
from agentform.forms.fill import Prompts
from agentform.forms.label_prior import CONTENT_FREE, PriorStore, priors_of
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Priors, Scoring, choose, choose_among_ways, require_confidence
from agentform.forms.state import FormState
from agentform.forms.symmetry import Posing, Symmetry, some_of, ways_of
from agentform.messages import Message, Usage
from agentform.runtime.engine import Engine
from agentform.schema.json_text import text_or_json
from agentform.schema.target import Target, load

__all__ = ["decide_isolated"]

_AT_ONCE = 16
"""Questions that are asked at the same time; each holds the prompts of its prior."""
_KEY = "answer"


async def decide_isolated(
    engine: Engine,
    state: str,
    questions: Mapping[str, Asked],
    *,
    limits: Limits | None = None,
    scoring: Scoring | None = None,
    priors: PriorStore | None = None,
) -> Decisions:
    """Answer every question about `state` as if it were the only one.

    The model reads the text, the question and all its options with what is said of them; names of questions and the
    other questions have no part in an answer. The limits are those of each question.

    Raises:
        InvalidInput: no question is asked.
        UnsupportedSchema: a question has fewer than two options.
        Abstained: a decision stayed below the limits on legal mass or probability.
        EngineError: the engine cannot serve the request.
    """
    require_options(questions)
    asking = _Alone(engine, state, limits or Limits(), scoring or Scoring.of(engine), priors or priors_of(engine))
    work = [partial(asking.ask, question) for question in questions.values()]
    # The first leaves the text in the cache for those that follow.
    groups = [work[:1], *(work[at : at + _AT_ONCE] for at in range(1, len(work), _AT_ONCE))]
    answers = [answer for group in groups for answer in await at_once(group)]
    return Decisions(
        decided={name: answer.decision for name, answer in zip(questions, answers, strict=True)},
        usage=sum((answer.usage for answer in answers), Usage()),
        prompt_usage=sum((answer.prompt_usage for answer in answers), Usage()),
    )


@dataclass(frozen=True)
class _Answered:
    """A decision and what it cost."""

    decision: Decision
    usage: Usage
    prompt_usage: Usage


@dataclass(frozen=True)
class _Alone:
    """What all questions have in common."""

    engine: Engine
    state: str
    limits: Limits
    scoring: Scoring
    store: PriorStore

    async def ask(self, asked: Asked) -> _Answered:
        """Answer one question."""
        if self.scoring.symmetry is not None:
            return await self._ask_in_ways(asked, self.scoring.symmetry)
        session = Session(self.engine, limits=self.limits)
        target, point, priors = await prompt_work(self._size(asked), self._prepared, asked)
        answers = await choose(session, point, _questions(target), scoring=self.scoring, priors=priors)
        return self._answered(session, answers[0])

    async def _ask_in_ways(self, asked: Asked, symmetry: Symmetry) -> _Answered:
        """The same as the mean over as many ways of putting it as may be paid for."""
        session = Session(self.engine, limits=self.limits)
        ways = self._affordable(ways_of(asked), symmetry)
        put = list[tuple[Posing, InsertionPoint, Question, Priors]]()
        for way in ways:
            target, point, priors = await prompt_work(self._size(way.asked), self._prepared, way.asked)
            put.append((way, point, _questions(target)[0], priors))
        options = tuple(option for option, _ in asked.told)
        nothing = options.index(None) if None in options else None
        question = replace(put[0][2], answers=options, nothing=nothing)
        return self._answered(session, await choose_among_ways(session, question, put, scoring=self.scoring))

    def _affordable(self, ways: Sequence[Posing], symmetry: Symmetry) -> Sequence[Posing]:
        if symmetry == "exact":
            return ways
        # What follows the text, whatever the order its options stand in, is about as long in every way.
        tokens = len(self.engine.tokenizer.encode(_told(ways[0])))
        return some_of(ways, min(len(ways), 1 + symmetry // tokens))

    def _answered(self, session: Session, answer: Answer) -> _Answered:
        require_confidence([answer], self.limits)
        return _Answered(decision_of(answer), session.usage, session.prompt_usage or Usage())

    def _size(self, asked: Asked) -> int:
        return len(self.state) + len(_told(asked)) * len(CONTENT_FREE) + OPTION_CHARACTERS * len(asked.told)

    def _prepared(self, asked: Asked) -> tuple[Target, InsertionPoint, Priors]:
        target, told = _target(asked), _told(asked)
        prompts = Prompts(self.engine, target, "")
        messages = _messages(self.state, told)
        check_fits(self.engine, messages)
        points = [prompts.point(_messages(text, told)) for text in CONTENT_FREE]
        return target, prompts.point(messages), Priors(self.store, self.engine, points)


def _target(asked: Asked) -> Target:
    schema = {"type": "object", "properties": {_KEY: asked.schema()}, "required": [_KEY]}
    return load(schema, name="decisions")


def _questions(target: Target) -> Sequence[Question]:
    return open_questions(FormState(root=target.form.root))


def _messages(text: str, told: str) -> Sequence[Message]:
    return [Message(role="user", content=f"{text}\n\n{told}")]


def _told(asked: Asked | Posing) -> str:
    """The question, and one line for each option."""
    options = [f"- {text_or_json(option)}: {said}".removesuffix(": ") for option, said in asked.told]
    return "\n".join([*filter(None, [asked.question]), *options])
