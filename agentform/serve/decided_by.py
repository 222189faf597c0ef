"""Who decided, in the answers of endpoints that decide: a field that others' clients leave alone."""

from __future__ import annotations

from typing import Any

from agentform.forms.asked import Decisions

__all__ = ["decided_by"]


def decided_by(decisions: Decisions) -> dict[str, Any]:
    """`decided_by`: the decision model by the names of the questions that it answered, if it answered any."""
    named = {name: decision.by for name, decision in decisions.items() if decision.by}
    return {"decided_by": named} if named else {}
