"""The decisions that filling a form right takes, where its right value is known.

They are asked as `fill` asks them: wave after wave, at the same place in the same tokens, with the right answers taken
before the next wave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agentform.decoding.insertion_point import InsertionPoint
from agentform.errors import InvalidInput
from agentform.forms.answer import Question, assumed
from agentform.forms.prompt_style import Posed, pose
from agentform.forms.questions import early_free_leaves, open_questions
from agentform.forms.scoring import Scoring, posed_lines
from agentform.forms.state import FormState
from agentform.messages import JsonValue
from agentform.runtime.engine import Tokenizer
from agentform.runtime.labelled import LabelledDecision
from agentform.schema.form import Choice, Fixed, Free, Node, Path, Record, Repeat, Subset, Union, pointer
from agentform.schema.json_text import dumps, plain
from agentform.schema.target import Target
from agentform.schema.validate import SchemaValidator

__all__ = ["form_decisions"]

_ABSENT = object()


def form_decisions(
    tokenizer: Tokenizer, target: Target, point: InsertionPoint, value: JsonValue, scoring: Scoring
) -> list[LabelledDecision]:
    """Every closed question that leads to `value`, with its right answer.

    Raises:
        InvalidInput: the value is not one that the schema accepts, or none that its form can be filled with.
    """
    if violations := target.validator.check(value):
        first = violations[0]
        raise InvalidInput(f"the labelled value breaks its schema at '{first.pointer}': {first.reason}")
    right = _Right(root=target.form.root, value=value)
    state = FormState(root=target.form.root)
    found: list[LabelledDecision] = []
    while True:
        questions = open_questions(state)
        if questions:
            answers = {question.key: assumed(question, right.answer(question)) for question in questions}
            found += _decisions(tokenizer, point, questions, right, scoring)
            state = replace(state, answers={**state.answers, **answers})
        elif early := early_free_leaves(state):
            texts = {each.leaf.path: dumps(right.at(each.leaf.path)) for each in early}
            state = replace(state, texts={**state.texts, **texts})
        else:
            return found


def _decisions(
    tokenizer: Tokenizer, point: InsertionPoint, questions: list[Question], right: _Right, scoring: Scoring
) -> Iterator[LabelledDecision]:
    posed = [pose(question, point, scoring.lead_in)[0] for question in questions]
    prompt_ids, lines = posed_lines(tokenizer, posed)
    for question, item, own in zip(questions, posed, lines, strict=True):
        yield LabelledDecision(prompt_ids=prompt_ids, options=tuple(own), right=right.text(question, item))


@dataclass(frozen=True, kw_only=True)
class _Right:
    """What a labelled value says of a form's questions."""

    root: Node
    value: JsonValue

    def at(self, path: Path) -> JsonValue:
        """The value there.

        Raises:
            InvalidInput: there is none.
        """
        found = self._found(path)
        if found is _ABSENT:
            raise InvalidInput(f"the labelled value has nothing at '{pointer(path)}'")
        return found  # pyright: ignore[reportReturnType]

    def answer(self, question: Question) -> int:
        """The right answer's number.

        Raises:
            InvalidInput: none of the answers says it.
        """
        wanted = self._wanted(question)
        for at, answer in enumerate(question.answers):
            if dumps(answer) == dumps(wanted):
                return at
        where = pointer(question.path) or "(whole)"
        raise InvalidInput(f"the labelled value at '{where}' is none of the form's options: {dumps(wanted)[:80]}")

    def text(self, question: Question, posed: Posed) -> int:
        """The number of the text that stands for the right answer; of several the one that the value begins with."""
        answer = self.answer(question)
        able = [at for at, group in enumerate(posed.groups) if group == answer]
        if len(able) > 1:
            written = dumps(self.at(question.path))
            able = [at for at in able if written.startswith(posed.texts[at].strip())] or able
        return able[0]

    def _wanted(self, question: Question) -> JsonValue:
        match question.kind:
            case "presence":
                return self._found(question.path) is not _ABSENT
            case "member":
                listed = self.at(question.path[:-1])
                subset = next(n for n in _nodes(self.root) if isinstance(n, Subset) and n.path == question.path[:-1])
                option = dumps(subset.options[int(question.path[-1])])
                return isinstance(listed, list) and option in map(dumps, listed)
            case "count":
                listed = self.at(question.path)
                return len(listed) if isinstance(listed, list) else None
            case "arm":
                return self._arm(question)
            case _:
                return self.at(question.path)

    def _arm(self, question: Question) -> JsonValue:
        value = self.at(question.path)
        for union in _nodes(self.root):
            if isinstance(union, Union) and union.path == question.path and union.labels == question.answers:
                for arm, label in zip(union.arms, union.labels, strict=True):
                    if _accepts(arm, value):
                        return label
        return value

    def _found(self, path: Path) -> object:
        found: object = self.value
        for key in path:
            if isinstance(found, Mapping) and key in found:
                found = found[key]  # pyright: ignore[reportUnknownVariableType]
            elif isinstance(found, list) and key.isdigit() and int(key) < len(found):  # pyright: ignore[reportUnknownArgumentType]
                found = found[int(key)]  # pyright: ignore[reportUnknownVariableType]
            else:
                return _ABSENT
        return found  # pyright: ignore[reportUnknownVariableType]


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Record():
            inner = [field.node for field in node.fields]
        case Union():
            inner = list(node.arms)
        case Repeat():
            inner = list(node.items)
        case _:
            inner = list[Node]()
    for each in inner:
        yield from _nodes(each)


def _accepts(node: Node, value: JsonValue) -> bool:
    """Whether the value can be what the node stands for, as far as tells arms apart."""
    match node:
        case Fixed():
            return dumps(node.value) == dumps(value)
        case Choice():
            return dumps(value) in map(dumps, node.options)
        case Free():
            return not SchemaValidator(plain(node.schema)).check(value)
        case Subset():
            return isinstance(value, list) and all(dumps(item) in map(dumps, node.options) for item in value)
        case Repeat():
            return (
                isinstance(value, list)
                and node.min_items <= len(value) <= len(node.items)
                and all(map(_accepts, node.items, value))
            )
        case Union():
            return any(_accepts(arm, value) for arm in node.arms)
        case Record():
            return isinstance(value, Mapping) and all(
                _accepts(field.node, value[field.name]) if field.name in value else not field.required
                for field in node.fields
            )
