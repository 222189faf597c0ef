"""The true schema has the last word: failing leaves are decided again, a bounded number of times.

Closed leaves first: joint assignments are tried against the validator in falling order of probability, which costs
no model call. Free leaves are generated again with the refused value and the reason in view. What fails a second
time at the same places, or has only joint solutions that the model finds very improbable, is decided in sequence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import anyio

from agentform.decoding.session import Session
from agentform.errors import Attempt, CallRejected, Violation
from agentform.forms.beam_search import Answers
from agentform.forms.draft import Draft, Filling, draft_in_sequence, evidence_of, first_draft, write_draft
from agentform.forms.joint import best_first
from agentform.messages import How
from agentform.schema.form import Path, pointer

__all__ = ["fill_form", "refusal"]


async def fill_form(session: Session, filling: Filling) -> Draft:
    """A draft that the true schema accepts.

    Raises:
        CallRejected: none was found within `Limits.repairs`; carries every attempt.
        ArgumentsTruncated, Abstained: as `first_draft` raises them.
    """
    draft = await first_draft(session, filling)
    attempts: list[Attempt] = []
    while violations := filling.target.validator.check(draft.value):
        attempts.append(Attempt(arguments=draft.value, violations=violations))
        if len(attempts) > session.limits.repairs:
            raise CallRejected(filling.target.name, attempts)
        draft = await _repaired(session, filling, draft, attempts)
    return draft


def refusal(violations: Sequence[Violation]) -> str:
    """What the model is told of a form that was refused."""
    reasons = "; ".join(f"{v.pointer or 'form'}: {v.reason}" for v in violations)
    return f"That is not valid: {reasons}. Fill in the form again."


async def _repaired(session: Session, filling: Filling, draft: Draft, attempts: Sequence[Attempt]) -> Draft:
    violations = attempts[-1].violations
    joint = await _solve_jointly(session, filling, draft, violations)
    if joint is not None and (joint.gap or 0.0) <= filling.scoring.max_gap:
        return await _told(filling, joint)
    place = await filling.retry(draft.written.text, violations)
    texts = {path: text for path, text in draft.written.free.items() if not _concerns(violations, path)}
    if len(texts) < len(draft.written.free) and joint is None and not _fails_alike(attempts):
        again = await write_draft(session, filling, draft.answers, place=place, known=texts)
        return _with_changes_marked(draft, again)
    answers = {key: answer for key, answer in draft.answers.items() if not _concerns(violations, key[0])}
    sequence = await draft_in_sequence(session, filling, place, answers=answers, texts=texts)
    if joint is not None and filling.target.validator.check(sequence.value):
        return await _told(filling, joint)
    return _with_changes_marked(draft, sequence)


async def _told(filling: Filling, joint: Draft) -> Draft:
    if filling.watch:
        evidence = evidence_of(filling.target.form.root, joint)
        await filling.watch.chosen(item for item in evidence if item.how == "joint")
    return joint


def _fails_alike(attempts: Sequence[Attempt]) -> bool:
    """Whether the last attempt fails at a place where the one before failed."""
    if len(attempts) < 2:
        return False
    places = [{violation.pointer for violation in attempt.violations} for attempt in attempts[-2:]]
    return bool(places[0] & places[1])


def _with_changes_marked(old: Draft, new: Draft) -> Draft:
    answered = [k[0] for k, a in new.answers.items() if k not in old.answers or old.answers[k].index != a.index]
    written = [path for path, text in new.written.free.items() if old.written.free.get(path) != text]
    return replace(new, how=dict(old.how) | dict(new.how) | _marked(answered + written, "repaired"), gap=old.gap)


def _concerns(violations: Sequence[Violation], path: Path) -> bool:
    """Whether a violation lies at, above or below the leaf."""
    place = pointer(path) + "/"
    return any(place.startswith(v.pointer + "/") or (v.pointer + "/").startswith(place) for v in violations)


async def _solve_jointly(
    session: Session, filling: Filling, draft: Draft, violations: Sequence[Violation]
) -> Draft | None:
    """The most probable assignment of the closed leaves that the validator accepts, if one is found.

    The failing leaves alone are tried first; a rule across fields may name a field that is not the one to change.
    """
    values = {key: answer for key, answer in draft.answers.items() if key[1] == "value"}
    failing = {key: answer for key, answer in values.items() if _concerns(violations, key[0])}
    until = anyio.current_time() + session.limits.joint_s
    for group in (failing, values) if failing and len(values) > len(failing) else (failing,):
        found = await _search(session, filling, draft, group, until)
        if found is not None:
            return found
    return None


async def _search(session: Session, filling: Filling, draft: Draft, group: Answers, until: float) -> Draft | None:
    rows = [[math.log(max(p, 1e-300)) for p in answer.probabilities] for answer in group.values()]
    best: float | None = None
    for picks, total in islice(best_first(rows), session.limits.joint_candidates):
        best = total if best is None else best
        moved = {key: replace(a, index=i) for (key, a), i in zip(group.items(), picks, strict=True)}
        answers = dict(draft.answers) | moved
        candidate = await write_draft(session, filling, answers, known=draft.written.free)
        if not filling.target.validator.check(candidate.value):
            changed = [key[0] for key, a in moved.items() if a.index != draft.answers[key].index]
            return replace(candidate, how=dict(draft.how) | _marked(changed, "joint"), gap=best - total)
        if anyio.current_time() > until:
            return None
    return None


def _marked(paths: Sequence[Path], how: How) -> dict[Path, How]:
    return dict.fromkeys(paths, how)
