"""Fills one form: scored choices, then the JSON with free leaves generated in place, then the true schema.

::

    FormState(root) ──_draft──▶ answers, texts ──Validator.check──▶ valid: done
          ▲   answer_waves: closed leaves, wave after wave, one batch each       │ violations
          │   write_leaf: free leaves that closed ones wait for                  ▼
          │   write_leaves: the JSON in written order, free leaves in place    _repaired
          └──────────────────────────────────────────────────────────────────────┘ at most `Limits.repairs` times

What failed is first solved jointly, then written again with the refusal in view; what fails a second time at the same
leaves, or has only joint solutions that the model finds very improbable, is decided in sequence. Where all that was in
vain, the choices are written one after another under grammars of their options, once. With an engine that cannot score
the whole form is written (`written.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from agentform._util.threads import FORMS
from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.session import Session
from agentform.errors import (
    Abstained,
    ArgumentMalformed,
    ArgumentsTruncated,
    Attempt,
    CallRejected,
    CannotScore,
    GrammarError,
    Violation,
)
from agentform.forms.beam_search import answer_waves
from agentform.forms.elsewhere import Elsewhere
from agentform.forms.generate import write_leaf, write_leaves
from agentform.forms.progress import Watch
from agentform.forms.questions import early_free_leaves
from agentform.forms.refusal import RefusalPrompt
from agentform.forms.repair import (
    as_written,
    fails_alike,
    in_sequence,
    joint_solution,
    open_assignments,
    to_be_written,
    with_changes_marked,
    with_narrower_leaves,
    without_refused,
)
from agentform.forms.rules import breaks_rules, keeping_rules
from agentform.forms.scoring import Priors, Scoring, require_confidence
from agentform.forms.state import FormState
from agentform.forms.unsatisfied import unsatisfied_rules
from agentform.forms.written import write_form
from agentform.schema.target import Target

__all__ = ["Filling", "fill_form"]

_MOST_ROUNDS = 8
"""Times that answers are changed for the sake of rules, each of which may open further questions."""
_MOST_COMPLETIONS = 3
"""Assignments in one repair for which further leaves are decided before the validator is asked."""


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Everything that filling one form needs."""

    target: Target
    point: InsertionPoint
    """Where the form's JSON begins."""
    closing: str = ""
    """Text that follows the form's JSON."""
    priors: Priors | None = None
    scoring: Scoring = field(default_factory=Scoring)
    refusal: RefusalPrompt
    """How the model is told of a form that was refused."""
    watch: Watch | None = None
    elsewhere: Elsewhere | None = None
    """Who answers closed questions first; what was refused is decided again here, with the refusal in view."""


async def fill_form(session: Session, filling: Filling) -> FormState:
    """The form, filled so that the true schema accepts it.

    Raises:
        CallRejected: no such filling was found within `Limits.repairs`; carries every attempt.
        ArgumentsTruncated, ArgumentMalformed: a free leaf was not completed.
        Abstained: a choice stayed below the limits on legal mass or probability.
        EngineError: the engine cannot serve a request; DeadlineExceeded among them.
    """
    if not session.engine.info.scores:
        return await _without_scores(session, filling)
    return await _by_scores(session, filling)


async def _without_scores(session: Session, filling: Filling) -> FormState:
    """A decision model may answer what the engine cannot; where it leaves something open, the engine writes all."""
    if filling.elsewhere is not None:
        with suppress(CannotScore):
            return await _by_scores(session, filling)
    return await write_form(
        session,
        filling.target,
        filling.point,
        refusal=filling.refusal,
        closing=filling.closing,
        watch=filling.watch,
    )


async def _by_scores(session: Session, filling: Filling) -> FormState:
    attempts: list[Attempt] = []
    refusals: list[tuple[Violation, ...]] = []
    root = filling.target.form.root
    step: Callable[[], Awaitable[FormState]] = partial(_draft, session, filling, FormState(root=root), filling.point)
    while True:
        try:
            state = await step()
        except ArgumentMalformed as error:
            found = (Violation(pointer=error.pointer, reason=error.reason),)
            attempts.append(Attempt(arguments=error.written, violations=found))
            if len(attempts) > session.limits.repairs:
                raise
            point = filling.refusal.after(error.written, found)
            step = partial(_draft, session, filling, FormState(root=root), point)
            continue
        violations = filling.target.validator.check(state.value)
        if not violations:
            return state
        attempts.append(Attempt(arguments=state.value, violations=violations))
        if len(attempts) > session.limits.repairs:
            if (written := await _last_resort(session, filling, state, violations)) is not None:
                return written
            raise CallRejected(filling.target.name, attempts, unsatisfied_rules(refusals))
        step = partial(_repaired, session, filling, state, attempts, refusals)


async def _draft(session: Session, filling: Filling, state: FormState, point: InsertionPoint) -> FormState:
    """All that `state` does not hold yet, decided and written at `point`."""
    state = await _decided(session, filling, state, point)
    if filling.watch:
        await filling.watch.chosen(replace(state, texts={}).evidence())
    return await _written(session, filling, state, point)


async def _decided(session: Session, filling: Filling, state: FormState, point: InsertionPoint) -> FormState:
    """Every closed leaf decided, and the free leaves written that had to be known for it."""
    rounds = _MOST_ROUNDS
    elsewhere = filling.elsewhere if point is filling.point else None
    while True:
        state = await answer_waves(
            session, point, state, scoring=filling.scoring, priors=filling.priors, elsewhere=elsewhere
        )
        if rounds and breaks_rules(state):
            kept = await FORMS.run(keeping_rules, state)
            if kept is not None:
                state, rounds = kept, rounds - 1
                continue
        early_leaves = early_free_leaves(state)
        if not early_leaves:
            break
        for early in early_leaves:
            context = point.json().with_text(f"{early.lead} ")
            state = await write_leaf(session, context, state, early.leaf, follow="}", watch=filling.watch)
    require_confidence(list(state.answers.values()), session.limits)
    return state


async def _completed(
    session: Session, filling: Filling, state: FormState, violations: Sequence[Violation]
) -> FormState | None:
    """The first accepted form of those whose answers open further leaves, such as a property that is there now."""
    for opened in islice(open_assignments(state, violations, session.limits), _MOST_COMPLETIONS):
        try:
            completed = await _draft(session, filling, opened, filling.point)
        except (ArgumentsTruncated, ArgumentMalformed, Abstained):
            continue
        if not filling.target.validator.check(completed.value):
            return completed
    return None


async def _written(session: Session, filling: Filling, state: FormState, point: InsertionPoint) -> FormState:
    return await write_leaves(session, point.json(), state, closing=filling.closing, watch=filling.watch)


async def _last_resort(
    session: Session, filling: Filling, state: FormState, violations: Sequence[Violation]
) -> FormState | None:
    """The form with its choices written one after another under their grammars, if that is accepted."""
    if not any(kind == "value" for _, kind in state.answers):
        return None
    opened = replace(state, root=to_be_written(state.root))
    try:
        written = await _written(session, filling, opened, filling.refusal.after(state.json_text, violations))
    except (ArgumentsTruncated, ArgumentMalformed, GrammarError):
        return None
    found = as_written(state, written)
    return None if filling.target.validator.check(found.value) else found


async def _repaired(
    session: Session, filling: Filling, state: FormState, attempts: list[Attempt], refusals: list[tuple[Violation, ...]]
) -> FormState:
    """The next draft after a refused one."""
    validator, violations = filling.target.validator, attempts[-1].violations
    joint = await joint_solution(validator, state, violations, session.limits, refusals=refusals)
    if joint is not None and (joint.gap or 0.0) <= filling.scoring.max_gap:
        return await _told(filling, joint)
    if joint is None and (completed := await _completed(session, filling, state, violations)) is not None:
        return completed
    point = filling.refusal.after(state.json_text, violations)
    narrower = with_narrower_leaves(state, violations)
    kept = replace(without_refused(state, violations), root=narrower.root)
    if len(kept.texts) < len(state.texts) and joint is None and not fails_alike(attempts):
        again = await _written(session, filling, replace(kept, answers=state.answers), point)
    else:
        again = await _draft(session, filling, replace(kept, root=in_sequence(kept.root)), point)
        if joint is not None and validator.check(again.value):
            return await _told(filling, joint)
    return with_changes_marked(state, again)


async def _told(filling: Filling, joint: FormState) -> FormState:
    if filling.watch:
        await filling.watch.chosen(item for item in joint.evidence() if item.how == "joint")
    return joint
