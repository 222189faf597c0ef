"""Fills a form with an engine that cannot score: the model writes the whole value under the form's own schema.

::

    write_leaf(schema of the form) ──▶ the text ──Validator.check──▶ valid: every leaf of it is evidence
          ▲                                   │ violations, or no JSON
          └── after a turn that shows both ◀──┘ at most `Limits.repairs` times

The schema is what the server follows, if it follows any; what it does not is refused here and written again.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.session import Session
from agentform.errors import ArgumentMalformed, Attempt, CallRejected, CannotScore, Violation
from agentform.forms.generate import write_leaf
from agentform.forms.progress import Watch
from agentform.forms.refusal import RefusalPrompt
from agentform.forms.state import FormState
from agentform.forms.unsatisfied import unsatisfied_rules
from agentform.messages import How, JsonValue
from agentform.schema.form import Field, Fixed, Free, Node, Path, Record, Union, leaves
from agentform.schema.json_text import dumps
from agentform.schema.target import Target

__all__ = ["require_no_scores", "write_form"]

_CLOSED_TOKENS = 32
"""Room for a choice, its key and what stands between."""
_MOST_TOKENS = 4096


async def write_form(
    session: Session,
    target: Target,
    point: InsertionPoint,
    *,
    refusal: RefusalPrompt,
    closing: str,
    watch: Watch | None,
) -> FormState:
    """The form, written at `point` so that the true schema accepts it; `closing` is the text that follows.

    Raises:
        CannotScore: the limits ask for a probability or a legal mass.
        CallRejected: no such text was written within `Limits.repairs`; carries every attempt.
        ArgumentsTruncated, ArgumentMalformed: what was written was not complete, or no JSON.
        EngineError: the engine cannot serve a request; DeadlineExceeded among them.
    """
    require_no_scores(session)
    attempts: list[Attempt] = []
    while True:
        malformed: ArgumentMalformed | None = None
        state = FormState(root=target.form.root)
        try:
            state = await _whole(session, target, point, closing, watch)
            found, shown = target.validator.check(state.value), state.json_text
        except ArgumentMalformed as error:
            malformed, shown = error, error.written
            found = (Violation(pointer="", reason=error.reason),)
        if not found:
            return _by_leaf(target.form.root, state, again=bool(attempts))
        attempts.append(Attempt(arguments=shown if malformed else state.value, violations=tuple(found)))
        if len(attempts) > session.limits.repairs:
            raise malformed or CallRejected(
                target.name, attempts, unsatisfied_rules([attempt.violations for attempt in attempts])
            )
        point = refusal.after(shown, found)


def require_no_scores(session: Session) -> None:
    """Limits on probabilities cannot be kept where none are known.

    Raises:
        CannotScore: there are such limits.
    """
    limits = session.limits
    if limits.min_probability is not None or limits.min_legal_mass is not None:
        raise CannotScore(session.engine.info.name)


async def _whole(
    session: Session, target: Target, point: InsertionPoint, closing: str, watch: Watch | None
) -> FormState:
    """The form as one free leaf."""
    root = Free(path=(), schema=target.form.schema)
    state, room = FormState(root=root), _room(target.form.root, session.limits.argument_tokens)
    return await write_leaf(session, point.json(), state, root, follow=closing, watch=watch, max_tokens=room)


def _room(form: Node, argument_tokens: int) -> int:
    """Tokens for all the leaves; bounded, since servers refuse what might not fit their context."""
    wanted = sum(argument_tokens if isinstance(leaf, Free) else _CLOSED_TOKENS for leaf in leaves(form))
    return max(argument_tokens, min(wanted, _MOST_TOKENS))


def _by_leaf(form: Node, state: FormState, *, again: bool) -> FormState:
    """The form as it was written: records of what is there, and every leaf with its own text."""
    found: dict[Path, tuple[How, str]] = {}
    root = _taken(form, state.value, (), found)
    how: dict[Path, How] = {path: "repaired" if again or state.shortened else how for path, (how, _) in found.items()}
    return FormState(root=root, texts={path: text for path, (_, text) in found.items()}, how=how)


def _taken(form: Node | None, value: JsonValue, path: Path, found: dict[Path, tuple[How, str]]) -> Node:
    """What the value holds of the form, whose leaves go into `found`."""
    record = _record(form, value) if isinstance(value, Mapping) else None
    if record is None or not isinstance(value, Mapping):
        found[path] = ("generated" if form is None or isinstance(form, Free) else "written", dumps(value))
        return Free(path=path, schema=True)
    nodes = {field.name: field.node for field in record.fields}
    fields = [Field(name=n, node=_taken(nodes.get(n), item, (*path, n), found)) for n, item in value.items()]
    return Record(path=path, fields=tuple(fields))


def _record(form: Node | None, value: Mapping[str, JsonValue]) -> Record | None:
    """The record that an object was written for."""
    match form:
        case Record():
            return form
        case Union():
            return next((arm for arm in form.arms if isinstance(arm, Record) and _fits(arm, value)), None)
        case _:
            return None


def _fits(arm: Record, value: Mapping[str, JsonValue]) -> bool:
    fixed = {field.name: field.node.value for field in arm.fields if isinstance(field.node, Fixed)}
    return all(field.name in value for field in arm.fields if field.required) and all(
        value.get(name, only) == only for name, only in fixed.items()
    )
