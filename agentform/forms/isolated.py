"""Questions that are asked of the same text each by itself: none sees the others, and none the name it goes by.

The text stands first and its question after it, so that the engine reads the text once and finds it in its cache for
every further question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agentform._util.gather import at_once
from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.limits import Limits
from agentform.decoding.prompt_work import OPTION_CHARACTERS, check_fits, prompt_work
from agentform.decoding.session import Session
from agentform.forms.asked import Asked, Decision, Decisions, require_options
from agentform.forms.decisions import decision_of
from agentform.forms.fill import Prompts
from agentform.forms.label_prior import CONTENT_FREE, PriorStore, priors_of
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Priors, Scoring, choose, require_confidence
from agentform.forms.state import FormState
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
        session = Session(self.engine, limits=self.limits)
        size = len(self.state) + len(_told(asked)) * len(CONTENT_FREE) + OPTION_CHARACTERS * len(asked.told)
        target, point, priors = await prompt_work(size, self._prepared, asked)
        questions = open_questions(FormState(root=target.form.root))
        answers = await choose(session, point, questions, scoring=self.scoring, priors=priors)
        require_confidence(answers, self.limits)
        return _Answered(decision_of(answers[0]), session.usage, session.prompt_usage or Usage())

    def _prepared(self, asked: Asked) -> tuple[Target, InsertionPoint, Priors]:
        schema = {"type": "object", "properties": {_KEY: asked.schema()}, "required": [_KEY]}
        target, told = load(schema, name="decisions"), _told(asked)
        prompts = Prompts(self.engine, target, "")
        messages = _messages(self.state, told)
        check_fits(self.engine, messages)
        points = [prompts.point(_messages(text, told)) for text in CONTENT_FREE]
        return target, prompts.point(messages), Priors(self.store, self.engine, points)


def _messages(text: str, told: str) -> Sequence[Message]:
    return [Message(role="user", content=f"{text}\n\n{told}")]


def _told(asked: Asked) -> str:
    """The question, and one line for each option."""
    options = [f"- {text_or_json(option)}: {said}".removesuffix(": ") for option, said in asked.told]
    return "\n".join([*filter(None, [asked.question]), *options])
