"""What a schema asks of several answers together, solved before anything is written.

`oneOf`, `not`, `dependentRequired`, `minProperties`, `contains` and their like speak of which keys stand together, of
values beside one another and of lists as a whole. Each place that has such rules is looked at once its questions are
answered; where the answers break them, the most probable answers that do not are taken instead. The search goes depth
first, leaves out whole branches by a three-valued verdict on what is decided so far, and is exact within its budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from agentform._util.threads import is_given_up
from agentform.forms.answer import MEMBER, Answer, Answers, QuestionKey, member_key
from agentform.forms.state import FormState
from agentform.schema.form import Choice, Field, Fixed, Free, Node, Path, Record, Repeat, Subset, Union
from agentform.schema.json_text import loads
from agentform.schema.partial import Items, Known, KnownPart, Members, Rules, Unknown, mentioned
from agentform.schema.union_labels import json_types

__all__ = ["breaks_rules", "keeping_rules"]

_Assignment: TypeAlias = Mapping[QuestionKey, int]
_Texts: TypeAlias = Mapping[Path, str]
_Ruled: TypeAlias = Record | Union | Subset | Repeat
_MAX_STEPS = 4_000
"""Partial assignments that are looked at for one place until one is found that keeps the rules."""
_MORE_STEPS = 1_000
"""Those that are looked at beyond the first, since a better one may follow."""


def breaks_rules(state: FormState) -> bool:
    """Whether what is decided breaks the rules of a place for certain, whatever is decided further."""
    decisions = _indices(state.answers)
    return any(_is_broken(node, decisions, state.texts) for node in _ruled(state.root, decisions))


def keeping_rules(state: FormState) -> FormState | None:
    """The state with the least probable changes of answers after which no rule is broken, as far as that is known.

    `None` when there is nothing to change; places whose rules cannot be kept by other answers stay as they are.
    """
    answers = dict(state.answers)
    for node in _ruled(state.root, _indices(answers)):
        if _is_broken(node, _indices(answers), state.texts):
            answers |= _JointSearch(node, answers, state.texts).best()
    changed = any(answers[key].index != answer.index for key, answer in state.answers.items())
    return replace(state, answers=answers) if changed else None


def _indices(answers: Answers) -> dict[QuestionKey, int]:
    return {key: answer.index for key, answer in answers.items()}


def _is_broken(node: _Ruled, decisions: _Assignment, texts: _Texts) -> bool:
    return Rules(node.rules or {}).verdict(_part_of(node, decisions, texts)) is False


def _ruled(node: Node, decisions: _Assignment) -> Iterator[_Ruled]:
    """The places with rules that the decisions have reached, the innermost first."""
    for below in _below(node, decisions):
        yield from _ruled(below, decisions)
    if isinstance(node, (Record, Union, Subset, Repeat)) and node.rules is not None:
        yield node


def _below(node: Node, decisions: _Assignment) -> list[Node]:
    match node:
        case Record():
            return [item.node for item in node.fields if _presence(node, item, decisions)]
        case Union() if (arm := decisions.get((node.path, "arm"))) is not None:
            return [node.arms[arm]]
        case Repeat() if (count := decisions.get((node.path, "count"))) is not None:
            return list(node.items[: node.min_items + count])
        case _:
            return []


def _presence(record: Record, item: Field, decisions: _Assignment) -> int | None:
    return 1 if item.required else decisions.get(((*record.path, item.name), "presence"))


def _part_of(node: Node, decisions: _Assignment, texts: _Texts) -> KnownPart:
    """The node's value as far as it is decided."""
    match node:
        case Fixed():
            return Known(node.value)
        case Choice() if (at := decisions.get((node.path, "value"))) is not None:
            return Known(node.options[at])
        case Free() if node.path in texts:
            return Known(loads(texts[node.path]))
        case Union() if (arm := decisions.get((node.path, "arm"))) is not None:
            return _part_of(node.arms[arm], decisions, texts)
        case Record():
            return _members(node, decisions, texts)
        case Subset():
            return _chosen(node, decisions)
        case Repeat():
            count = decisions.get((node.path, "count"))
            least = node.min_items if count is None else node.min_items + count
            items = tuple(_part_of(item, decisions, texts) for item in node.items[:least])
            return _whole(Items(items, more=len(node.items) - least if count is None else 0))
        case _:
            return Unknown(json_types(node))


def _members(node: Record, decisions: _Assignment, texts: _Texts) -> KnownPart:
    parts = {item.name: _part_of(item.node, decisions, texts) for item in node.fields}
    found = {item.name: _presence(node, item, decisions) for item in node.fields}
    there = {name: part for name, part in parts.items() if found[name]}
    maybe = {name: part for name, part in parts.items() if found[name] is None}
    if not maybe and all(isinstance(part, Known) for part in there.values()):
        return Known({name: part.value for name, part in there.items() if isinstance(part, Known)})
    return Members(there, maybe)


def _chosen(node: Subset, decisions: _Assignment) -> KnownPart:
    found = [decisions.get(member_key(node, at)) for at in range(len(node.options))]
    taken = tuple(Known(option) for option, answer in zip(node.options, found, strict=True) if answer == MEMBER)
    return _whole(Items(taken, more=found.count(None)))


def _whole(items: Items) -> KnownPart:
    values = [item.value for item in items.items if isinstance(item, Known)]
    return Known(values) if len(values) == len(items.items) and not items.more else items


@dataclass(frozen=True)
class _Variable:
    key: QuestionKey
    costs: tuple[float, ...]
    """Of each answer: the log probability that it gives up against the best one."""

    @property
    def order(self) -> list[int]:
        """The answers, the most probable first."""
        return sorted(range(len(self.costs)), key=self.costs.__getitem__)

    @property
    def sureness(self) -> float:
        """How much the second best answer gives up."""
        return sorted(self.costs)[1] if len(self.costs) > 1 else 0.0


class _JointSearch:
    """Depth first over the answers that the rules of one place speak of, the surest ones first."""

    def __init__(self, node: _Ruled, answers: Answers, texts: _Texts) -> None:
        self._node = node
        self._answers = answers
        self._texts = texts
        self._rules = Rules(node.rules or {})
        keys = dict.fromkeys(key for key in _keys(node, mentioned(node.rules)) if key in answers)
        found = [_Variable(key, _costs(answers[key])) for key in keys]
        self._variables = sorted(found, key=lambda variable: variable.sureness, reverse=True)
        self._fixed = {key: answer.index for key, answer in answers.items() if key not in keys}
        self._least = math.inf
        self._best: dict[QuestionKey, int] = {}
        self._steps = 0

    def best(self) -> dict[QuestionKey, Answer]:
        """The answers that change."""
        self._go(0, 0.0, {})
        return {key: replace(self._answers[key], index=at) for key, at in self._best.items()}

    def _go(self, depth: int, cost: float, taken: dict[QuestionKey, int]) -> None:
        self._steps += 1
        if self._steps > (_MORE_STEPS if self._best else _MAX_STEPS) or cost >= self._least or is_given_up():
            return
        part = _part_of(self._node, {**self._fixed, **taken}, self._texts)
        verdict = self._rules.verdict(part)
        if verdict is False or cost + self._more_or_fewer(depth, part) >= self._least:
            return
        if verdict or depth == len(self._variables):
            rest = {variable.key: variable.order[0] for variable in self._variables[depth:]}
            self._least, self._best = cost, {**taken, **rest}
            return
        variable = self._variables[depth]
        for at in variable.order:
            self._go(depth + 1, cost + variable.costs[at], {**taken, variable.key: at})

    def _more_or_fewer(self, depth: int, part: KnownPart) -> float:
        """What the number of properties alone will cost at least."""
        if not isinstance(part, Members) or self._node.rules is None:
            return 0.0
        open_ = [variable.costs for variable in self._variables[depth:] if variable.key[1] == "presence"]
        usual = len(part.there) + sum(costs[1] <= costs[0] for costs in open_)
        least, most = self._node.rules.get("minProperties", 0), self._node.rules.get("maxProperties", math.inf)
        missing, surplus = _number(least) - usual, usual - _number(most)
        return _sum_of_least([costs[1] for costs in open_ if costs[1] > 0], missing) + _sum_of_least(
            [costs[0] for costs in open_ if costs[0] > 0], surplus
        )


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) else 0.0


def _sum_of_least(costs: Sequence[float], number: float) -> float:
    return sum(sorted(costs)[: int(number)]) if 0 < number < math.inf else 0.0


def _costs(answer: Answer) -> tuple[float, ...]:
    logs = answer.log_probabilities
    return tuple(max(logs) - log for log in logs)


def _keys(node: Node, names: frozenset[str] | None) -> Iterator[QuestionKey]:
    """The questions below the node on which rules that speak of `names` may depend; `None` stands for all names."""
    match node:
        case Choice():
            yield node.path, "value"
        case Record():
            for item in node.fields:
                if names is None or item.name in names:
                    yield (*node.path, item.name), "presence"
                    yield from _keys(item.node, names)
        case Union():
            yield node.path, "arm"
            for arm in node.arms:
                yield from _keys(arm, names)
        case Subset():
            yield from (member_key(node, at) for at in range(len(node.options)))
        case Repeat():
            yield node.path, "count"
            for item in node.items:
                yield from _keys(item, names)
        case _:
            return
