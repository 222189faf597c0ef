"""The true schema has the last word: failing leaves are decided again, a bounded number of times.

Closed leaves first: joint assignments are tried against the validator in falling order of probability, which costs
no model call. Free leaves are generated again with the refused value and the reason in view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from agentform.calls.choose import Answer
from agentform.calls.fill import Draft, Filling, decide, write_draft
from agentform.calls.joint import best_first
from agentform.calls.questions import Kind
from agentform.calls.session import Session
from agentform.errors import Attempt, CallRejected, Violation
from agentform.messages import How
from agentform.schema.form import Path, pointer

__all__ = ["fill_form"]


async def fill_form(session: Session, filling: Filling) -> Draft:
    """A draft that the true schema accepts.

    Raises:
        CallRejected: none was found within `Limits.repairs`; carries every attempt.
        ArgumentsTruncated, Abstained: as `decide` and `write_draft` raise them.
    """
    draft = await write_draft(session, filling, await decide(session, filling))
    attempts: list[Attempt] = []
    while violations := filling.target.validator.check(draft.value):
        attempts.append(Attempt(arguments=draft.value, violations=violations))
        if len(attempts) > session.limits.repairs:
            raise CallRejected(filling.target.name, attempts)
        draft = await _repaired(session, filling, draft, violations)
    return draft


async def _repaired(session: Session, filling: Filling, draft: Draft, violations: Sequence[Violation]) -> Draft:
    joint = await _solve_jointly(session, filling, draft, violations)
    if joint is not None:
        return joint
    failing = [path for path in draft.written.free if _concerns(violations, path)]
    return await _write_again(session, filling, draft, failing or list(draft.written.free), violations)


def _concerns(violations: Sequence[Violation], path: Path) -> bool:
    """Whether a violation lies at, above or below the leaf."""
    place = pointer(path) + "/"
    return any(place.startswith(v.pointer + "/") or (v.pointer + "/").startswith(place) for v in violations)


async def _solve_jointly(
    session: Session, filling: Filling, draft: Draft, violations: Sequence[Violation]
) -> Draft | None:
    """The most probable assignment of the failing closed leaves that the validator accepts, if one is found."""
    values = {key: a for key, a in draft.answers.items() if key[1] == "value"}
    failing = {key: a for key, a in values.items() if _concerns(violations, key[0])}
    if not failing:
        return None
    for group in (failing, values) if len(values) > len(failing) else (failing,):
        found = await _search(session, filling, draft, group)
        if found is not None:
            return found
    return None


async def _search(
    session: Session, filling: Filling, draft: Draft, group: Mapping[tuple[Path, Kind], Answer]
) -> Draft | None:
    rows = [[math.log(max(p, 1e-300)) for p in answer.probabilities] for answer in group.values()]
    best: float | None = None
    for indices, total in islice(best_first(rows), session.limits.joint_candidates):
        best = total if best is None else best
        moved = {key: replace(a, index=i) for (key, a), i in zip(group.items(), indices, strict=True)}
        candidate = await _with_answers(session, filling, draft, moved)
        if not filling.target.validator.check(candidate.value):
            changed = [key[0] for key, a in moved.items() if a.index != draft.answers[key].index]
            return replace(candidate, how=dict(draft.how) | _marked(changed, "joint"), gap=best - total)
    return None


async def _with_answers(
    session: Session, filling: Filling, draft: Draft, moved: Mapping[tuple[Path, Kind], Answer]
) -> Draft:
    answers = dict(draft.answers) | dict(moved)
    return await write_draft(session, filling, answers, known=draft.written.free)


async def _write_again(
    session: Session, filling: Filling, draft: Draft, failing: Sequence[Path], violations: Sequence[Violation]
) -> Draft:
    context = await filling.retry(draft.written.text, violations)
    known = {path: text for path, text in draft.written.free.items() if path not in failing}
    again = await write_draft(session, filling, draft.answers, context=context, known=known)
    return replace(again, how=dict(draft.how) | _marked(failing, "repaired"), gap=draft.gap)


def _marked(paths: Sequence[Path], how: How) -> dict[Path, How]:
    return dict.fromkeys(paths, how)
