"""What is decided again of a form that the true schema refused.

Closed leaves first: joint assignments are tried against the validator in falling order of probability, which costs
no model call. What else a violation concerns is forgotten, and decided or written again with the refusal in view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import inf

import anyio

from agentform.decoding.limits import Limits
from agentform.errors import Attempt, Violation
from agentform.forms.answer import Answers
from agentform.forms.beam_search import best_first
from agentform.forms.joint_search import AssignmentSearch, Candidate
from agentform.forms.rules import breaks_rules
from agentform.forms.state import FormState
from agentform.messages import How
from agentform.schema.dependencies import in_order
from agentform.schema.form import Choice, Free, Node, Path, Record, Repeat, Union, leaves, pointer
from agentform.schema.json_text import dumps, loads
from agentform.schema.tighten_lists import way_below, with_list_rules
from agentform.schema.validate import Validator

__all__ = [
    "as_written",
    "fails_alike",
    "in_sequence",
    "joint_solution",
    "open_assignments",
    "to_be_written",
    "with_changes_marked",
    "with_narrower_leaves",
    "without_refused",
]


async def joint_solution(
    validator: Validator,
    state: FormState,
    violations: Sequence[Violation],
    limits: Limits,
    *,
    refusals: list[tuple[Violation, ...]] | None = None,
) -> FormState | None:
    """The most probable assignment of the closed leaves that the validator accepts, if one is found.

    The failing leaves alone are tried first; a rule across fields may name a field that is not the one to change.
    What was wrong with each candidate is added to `refusals`.
    """
    until = anyio.current_time() + limits.joint_s
    refused = [] if refusals is None else refusals
    searches = [AssignmentSearch(validator, state, group, until, refused) for group in _groups(state, violations)]
    for search in searches if limits.joint_candidates else ():
        if (found := await search.probable(limits.joint_candidates)) is not None:
            return _joint(state, found)
    for search in searches if limits.joint_candidates else ():
        walked = await search.walked()
        found = await search.guided(below=walked.gap if walked else inf) or walked or await search.shaped()
        if found is not None:
            return _joint(state, found)
    return None


def _joint(state: FormState, found: Candidate) -> FormState:
    return replace(found.state, how={**state.how, **_marked(found.changed, "joint")}, gap=found.gap)


def _groups(state: FormState, violations: Sequence[Violation]) -> Iterator[Answers]:
    """The answers that may be changed: the failing values, all values, and in the end arms, counts and presence too."""
    values = {key: answer for key, answer in state.answers.items() if key[1] == "value"}
    failing = {key: answer for key, answer in values.items() if _concerns(violations, key[0])}
    yield failing
    if failing and len(values) > len(failing):
        yield values
    if len(state.answers) > len(values) and not _is_written(state, violations):
        yield state.answers


def _is_written(state: FormState, violations: Sequence[Violation]) -> bool:
    """Whether a violation lies in a free leaf, so that it has to be written again."""
    return any((v.pointer + "/").startswith(pointer(path) + "/") for v in violations for path in state.texts)


def open_assignments(state: FormState, violations: Sequence[Violation], limits: Limits) -> Iterator[FormState]:
    """Other answers in falling order of probability that leave something to be decided and may then be accepted."""
    if _is_written(state, violations):
        return
    for moved, _ in islice(_assignments(state.answers), limits.joint_candidates):
        candidate = state.with_answers(moved)
        if candidate.text_of(state.root) is None and not breaks_rules(candidate):
            yield candidate


def _assignments(group: Answers) -> Iterator[tuple[Answers, float]]:
    rows = [answer.log_probabilities for answer in group.values()]
    for picks, total in best_first(rows):
        yield {key: replace(a, index=i) for (key, a), i in zip(group.items(), picks, strict=True)}, total


def without_refused(state: FormState, violations: Sequence[Violation]) -> FormState:
    """A new start with the answers and texts that no violation concerns."""
    return FormState(
        root=state.root,
        answers={key: answer for key, answer in state.answers.items() if not _concerns(violations, key[0])},
        texts={path: text for path, text in state.texts.items() if not _concerns(violations, path)},
    )


def with_narrower_leaves(state: FormState, violations: Sequence[Violation]) -> FormState:
    """The form with free leaves that a list's rules refused said more narrowly: what was right of the list stays."""
    narrower: dict[Path, Free] = {}
    for leaf in leaves(state.root):
        if not isinstance(leaf, Free) or leaf.path not in state.texts:
            continue
        value = loads(state.texts[leaf.path])
        for below in (steps for v in violations if (steps := way_below(leaf.path, v.pointer)) is not None):
            schema = with_list_rules(leaf.schema, value, below)
            if schema is not None:
                narrower[leaf.path] = replace(leaf, schema=schema)
    return replace(state, root=_with_leaves(state.root, narrower)) if narrower else state


def _with_leaves(node: Node, leaves_by_path: Mapping[Path, Free]) -> Node:
    match node:
        case Free():
            return leaves_by_path.get(node.path, node)
        case Record():
            return replace(
                node, fields=tuple(replace(f, node=_with_leaves(f.node, leaves_by_path)) for f in node.fields)
            )
        case Union():
            return replace(node, arms=tuple(_with_leaves(arm, leaves_by_path) for arm in node.arms))
        case _:
            return node


def fails_alike(attempts: Sequence[Attempt]) -> bool:
    """Whether the last attempt fails at a leaf where the one before failed."""
    if len(attempts) < 2:
        return False
    before, last = ({violation.pointer for violation in attempt.violations} for attempt in attempts[-2:])
    return bool(before & last)


def with_changes_marked(old: FormState, new: FormState) -> FormState:
    """The new state of the same form, in which all leaves that differ from the old one are marked as repaired."""
    answered = [k[0] for k, a in new.answers.items() if k not in old.answers or old.answers[k].index != a.index]
    written = [path for path, text in new.texts.items() if old.texts.get(path) != text]
    return replace(
        new,
        root=old.root,
        how={**old.how, **new.how, **_marked(answered + written, "repaired")},
        gap=old.gap,
        shortened=old.shortened | new.shortened,
    )


def to_be_written(node: Node) -> Node:
    """The form with every choice of a value open, to be written under a grammar of its options."""
    match node:
        case Choice():
            return Free(path=node.path, schema={"enum": list(node.options)}, description=node.description)
        case Record():
            return replace(node, fields=tuple(replace(f, node=to_be_written(f.node)) for f in node.fields))
        case Union():
            return replace(node, arms=tuple(map(to_be_written, node.arms)))
        case Repeat():
            return replace(node, items=tuple(map(to_be_written, node.items)))
        case _:
            return node


def as_written(old: FormState, written: FormState) -> FormState:
    """The old state's form with the choices taken that were written instead.

    Text that is none of a choice's options, as a grammar that had to be loosened lets through, leaves it as it was.
    """
    changed, texts = dict(old.answers), dict(written.texts)
    for key, answer in old.answers.items():
        text = texts.pop(key[0], None) if key[1] == "value" else None
        options = list(map(dumps, answer.question.answers)) if text is not None else []
        if text in options:
            changed[key] = replace(answer, index=options.index(text), by="")  # whoever chose before, this is not its
    return with_changes_marked(old, replace(old, answers=changed, texts=texts))


def in_sequence(node: Node) -> Node:
    """The form with every field depending on all that are decided before it."""
    match node:
        case Record():
            order = in_order({field.name: field.depends_on for field in node.fields})
            before = {name: tuple(order[:at]) for at, name in enumerate(order)}
            fields = [replace(f, node=in_sequence(f.node), depends_on=before[f.name]) for f in node.fields]
            return replace(node, fields=tuple(fields))
        case Union():
            return replace(node, arms=tuple(map(in_sequence, node.arms)))
        case Repeat():
            return replace(node, items=tuple(map(in_sequence, node.items)))
        case _:
            return node


def _concerns(violations: Sequence[Violation], path: Path) -> bool:
    """Whether a violation lies at, above or below the leaf."""
    leaf = pointer(path) + "/"
    return any(leaf.startswith(v.pointer + "/") or (v.pointer + "/").startswith(leaf) for v in violations)


def _marked(paths: Iterable[Path], how: How) -> dict[Path, How]:
    return dict.fromkeys(paths, how)
