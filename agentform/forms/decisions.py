"""Typed decisions: yes/no, one of several, and scores, asked of a text and answered with calibrated probabilities.

The convention of decision endpoints as a thin layer over forms: each question is one closed leaf, all are scored in
one batch, and no token is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentform.decoding.limits import Limits
from agentform.decoding.prompt_work import OPTION_CHARACTERS, prompt_work
from agentform.decoding.session import Session
from agentform.forms.answer import Answer
from agentform.forms.asked import Asked, Decision, Decisions, require_options
from agentform.forms.fill import Prompts, as_messages
from agentform.forms.label_prior import PriorStore, priors_of
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Scoring, choose, require_confidence
from agentform.forms.state import FormState
from agentform.messages import Message, Usage
from agentform.runtime.engine import Engine
from agentform.schema.target import Target, load

__all__ = ["Together", "decide_together", "decision_of"]


async def decide_together(
    engine: Engine,
    state: str | Sequence[Message],
    questions: Mapping[str, Asked],
    *,
    instructions: str = "",
    limits: Limits | None = None,
    scoring: Scoring | None = None,
    priors: PriorStore | None = None,
) -> Decisions:
    """Answer every question about `state`, a text or a conversation, in one batch.

    Raises:
        InvalidInput: no question is asked.
        UnsupportedSchema: a question has fewer than two options.
        Abstained: a decision stayed below the limits on legal mass or probability.
        EngineError: the engine cannot serve the request.
    """
    asking = await Together.of(
        engine, questions, instructions=instructions, limits=limits, scoring=scoring, priors=priors
    )
    return await asking.decide(state)


@dataclass(frozen=True, kw_only=True)
class Together:
    """Questions that are asked beside one another, ready for any number of texts."""

    engine: Engine
    target: Target
    prompts: Prompts
    limits: Limits
    scoring: Scoring
    priors: PriorStore

    @classmethod
    async def of(
        cls,
        engine: Engine,
        questions: Mapping[str, Asked],
        *,
        instructions: str = "",
        limits: Limits | None = None,
        scoring: Scoring | None = None,
        priors: PriorStore | None = None,
    ) -> Together:
        """The arguments are those of `decide_together`.

        Raises:
            InvalidInput: no question is asked.
            UnsupportedSchema: a question has fewer than two options.
        """
        require_options(questions)
        leaves = {name: question.schema() for name, question in questions.items()}
        schema = {"type": "object", "properties": leaves, "required": list(leaves)}
        size = sum(len(leaf["description"]) + OPTION_CHARACTERS * len(leaf.get("enum", ())) for leaf in leaves.values())
        target = await prompt_work(size, load, schema, name="decisions")
        scoring = scoring or Scoring.of(engine)
        return cls(
            engine=engine,
            target=target,
            prompts=Prompts(engine, target, instructions, scoring.list_fields),
            limits=limits or Limits(),
            scoring=scoring,
            priors=priors or priors_of(engine),
        )

    async def decide(self, state: str | Sequence[Message]) -> Decisions:
        """Every question answered about `state`.

        Raises:
            Abstained, EngineError: as `decide_together` raises them.
        """
        session = Session(self.engine, limits=self.limits)
        point, label_priors = await self.prompts.prepared(as_messages(state), self.priors)
        questions = open_questions(FormState(root=self.target.form.root))
        answers = await choose(session, point, questions, scoring=self.scoring, priors=label_priors)
        require_confidence(answers, session.limits)
        return Decisions(
            decided={str(a.question.path[0]): decision_of(a) for a in answers},
            usage=session.usage,
            prompt_usage=session.prompt_usage or Usage(),
        )


def decision_of(answer: Answer) -> Decision:
    """What an answer says to whoever asked."""
    return Decision(
        value=answer.value,
        probability=answer.probabilities[answer.index],
        probabilities=tuple(zip(answer.question.answers, answer.probabilities, strict=True)),
        legal_mass=answer.legal_mass,
        ways=answer.ways,
    )
