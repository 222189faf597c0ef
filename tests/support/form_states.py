"""Forms of which some questions are answered, without a model that answered them."""

from __future__ import annotations

from collections.abc import Mapping

from agentform.forms.answer import Answer, Question, QuestionKey
from agentform.forms.state import FormState
from agentform.schema.form import Node, Path

__all__ = ["state_of"]


def state_of(root: Node, indices: Mapping[QuestionKey, int] = {}, texts: Mapping[Path, str] = {}) -> FormState:
    """The form with these answers, by the index of each, and these texts of free leaves."""
    return FormState(root=root, answers={key: _answer(key, index) for key, index in indices.items()}, texts=texts)


def _answer(key: QuestionKey, index: int) -> Answer:
    path, kind = key
    question = Question(path=path, kind=kind, lead="", texts=(), groups=(), answers=())
    return Answer(question=question, index=index, probabilities=(), raw_probabilities=(), legal_mass=1.0)
