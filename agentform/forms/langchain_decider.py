"""LangChain's decision models as deciders, and what else may be given as one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import anyio
import anyio.to_thread

from agentform.errors import InvalidInput, ReplyMalformed
from agentform.forms.asked import Asked, Decision
from agentform.forms.decider import Decider, DecisionModel
from agentform.forms.system_one import decision_from, question_body

__all__ = ["DeciderSource", "LangChainDecisions", "decider_of"]


@runtime_checkable
class LangChainDecisionModel(Protocol):
    """What is needed of `langchain_core.decisions.BaseDecisionModel`; its package is only needed once one is used."""

    model: str

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """The same, and wait."""
        ...

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Answer one request of state and questions."""
        ...

    async def _aclassify(self, state: Any, questions: Any) -> Any: ...


DeciderSource: TypeAlias = Decider | DecisionModel | LangChainDecisionModel
"""What `decider=` takes."""


@dataclass(frozen=True)
class LangChainDecisions:
    """A LangChain decision model as a decision model."""

    model: LangChainDecisionModel

    @property
    def name(self) -> str:
        """The provider's name for the model."""
        return self.model.model

    async def decide(self, state: str, questions: Mapping[str, Asked]) -> Mapping[str, Decision]:
        """A decision for every question.

        Raises:
            ReplyMalformed: an answer is missing or none to its question.
            Exception: what the model itself raises.
        """
        from langchain_core.decisions import Choice, Noul, Score

        kinds: Mapping[str, Any] = {"noul": Noul, "choice": Choice, "score": Score}
        bodies = {name: question_body(asked) for name, asked in questions.items()}
        made = {name: kinds[body["type"]].model_validate(body) for name, body in bodies.items()}
        reply = await self._reply({"state": state, "questions": made})
        answers = cast("Mapping[str, Any]", getattr(reply, "answers", None) or {})
        if missing := [name for name in questions if name not in answers]:
            raise ReplyMalformed(f"{self.name} left questions without an answer: {', '.join(missing[:3])}")
        told = {name: answers[name].model_dump() for name in questions}
        return {name: decision_from(name, asked, told[name], where=self.name) for name, asked in questions.items()}

    async def _reply(self, request: Any) -> Any:
        """LangChain's asynchronous half needs asyncio; elsewhere its other half is asked, in a thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return await anyio.to_thread.run_sync(self.model.invoke, request, abandon_on_cancel=True)
        return await self.model.ainvoke(request)


def decider_of(source: DeciderSource | None) -> Decider | None:
    """A decider as it is, and any decision model on the usual terms.

    Raises:
        InvalidInput: it is none of them.
    """
    if source is None or isinstance(source, Decider):
        return source
    if isinstance(source, LangChainDecisionModel):
        return Decider(model=LangChainDecisions(source))
    given = cast("object", source)  # whatever came, whoever checks types or not
    if isinstance(given, DecisionModel):
        return Decider(model=given)
    hint = "; load_decider makes one of a URL" if isinstance(given, str) else ""
    raise InvalidInput(f"decider must be a Decider or a decision model, got {type(given).__name__}{hint}")
