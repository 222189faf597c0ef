"""System One's three types of questions, and their answers, as they stand on the wire; the server and clients share it.

::

    {"type": "noul",   "instructions": …, "criteria": {"true": …, "false": …}}   ⇄  YesNo
    {"type": "choice", "instructions": …, "criteria": {label: said} or [label]}  ⇄  OneOf
    {"type": "score",  "instructions": …, "criteria": [level, …]}                ⇄  Score, its levels from 0 on
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from agentform.errors import InvalidInput, ReplyMalformed
from agentform.forms.asked import Asked, Decision, OneOf, Score, YesNo
from agentform.messages import JsonValue
from agentform.schema.json_text import dumps, text_or_json

__all__ = ["WireQuestion", "answer_body", "asked_of", "content_text", "decision_from", "question_body"]

WireQuestion: TypeAlias = Mapping[str, Any]
_SUM_OFF = 0.02
"""By how much probabilities may miss one in their sum: servers round them."""
_LESS_SURE = 0.01
"""By how much an option that is chosen may be less probable than another: the same."""


def content_text(content: Any) -> str:
    """Text as it is, other JSON as its text, and nothing for null."""
    return "" if content is None else text_or_json(content)


def asked_of(name: str, question: WireQuestion) -> Asked:
    """The question that a body on the wire asks.

    Raises:
        InvalidInput: it has none of the three types, says nothing, or its criteria are not of its type.
    """
    said, criteria = content_text(question.get("instructions")), question.get("criteria")
    match question.get("type"):
        case "noul" if criteria is None or isinstance(criteria, Mapping):
            meant = cast("Mapping[str, Any]", criteria or {})
            made = YesNo(said, content_text(meant.get("true")), content_text(meant.get("false")))
            if not (said or made.yes or made.no):
                raise InvalidInput(f"question {name!r} needs instructions, or criteria that say what is yes or no")
            return made
        case "choice" if isinstance(criteria, Mapping | list | tuple) and criteria:
            return _one_of(name, said, cast("Any", criteria))
        case "score" if isinstance(criteria, list | tuple) and len(cast("Sequence[Any]", criteria)) > 1:
            return Score(said, least=0, levels=[content_text(level) for level in cast("Sequence[Any]", criteria)])
        case "noul" | "choice" | "score" as kind:
            wanted = {"noul": "a map of true and false", "choice": "a map or list of options"}.get(kind, "two levels")
            raise InvalidInput(f"question {name!r}: the criteria of a {kind} must be {wanted}, got {criteria!r}")
        case kind:
            raise InvalidInput(f"question {name!r}: type must be 'noul', 'choice' or 'score', got {kind!r}")


def _one_of(name: str, said: str, criteria: Mapping[str, Any] | Sequence[str]) -> OneOf:
    options: Mapping[str, Any] = criteria if isinstance(criteria, Mapping) else dict.fromkeys(criteria)
    if len(options) < len(criteria) or not all(
        isinstance(option, str) for option in cast("Sequence[Any]", list(options))
    ):
        raise InvalidInput(f"question {name!r}: options must be texts, each given once")
    return OneOf(said, list(options), [content_text(note) for note in options.values()])


def question_body(asked: Asked) -> dict[str, Any]:
    """The body that asks a question; options go by the names that `_labels` gives them."""
    match asked:
        case YesNo():
            criteria = {"true": asked.yes or None, "false": asked.no or None}
            told = {"criteria": criteria} if asked.yes or asked.no else {}
            return {"type": "noul", "instructions": asked.question, **told}
        case OneOf():
            notes = [said or None for _, said in asked.told]
            criteria = dict(zip(_labels(asked), notes, strict=True))
            return {"type": "choice", "instructions": asked.question, "criteria": criteria}
        case Score():
            levels = [said or str(number) for number, said in asked.told]
            return {"type": "score", "instructions": asked.question, "criteria": levels}


def _labels(asked: OneOf) -> list[str]:
    """A name for each option, as JSON where two options read alike."""
    texts = [text_or_json(option) for option in asked.options]
    return [text if texts.count(text) == 1 else dumps(o) for text, o in zip(texts, asked.options, strict=True)]


def answer_body(asked: Asked, legend: Sequence[Any], decision: Decision | None) -> dict[str, Any]:
    """The body that tells a decision; `None` is that of a question with one option, which is the answer."""
    rows = [] if decision is None else [(option, _unit(p)) for option, p in decision.probabilities]
    match asked:
        case YesNo():
            return {"type": "noul", "noul": dict(rows)[True]}
        case OneOf():
            found = {text_or_json(option): p for option, p in rows} or {text_or_json(asked.options[0]): 1.0}
            chosen = next(iter(found)) if decision is None else text_or_json(decision.value)
            return {"type": "choice", "choice": chosen, "confidence": found[chosen], "probabilities": found}
        case Score():
            levels = [p for _, p in rows]
            return {
                "type": "score",
                "score": sum(at * p for at, p in enumerate(levels)),
                "confidence": max(levels),
                "legend": {str(at): level for at, level in enumerate(legend)},
                "probabilities": {str(at): p for at, p in enumerate(levels)},
            }


def _unit(probability: float) -> float:
    """Sums of probabilities may be above one by a rounding error."""
    return min(1.0, probability)


def decision_from(name: str, asked: Asked, body: Any, *, where: str) -> Decision:
    """The decision that a body tells, checked; `where` is who sent it. What servers round away is put back.

    Raises:
        ReplyMalformed: the body is no answer to this question, or its probabilities are none.
    """
    try:
        return _decision(asked, body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        said = error.args[0] if error.args else error
        reason = f"misses {said!r}" if isinstance(error, KeyError) else str(said)
        raise ReplyMalformed(f"{where}: the answer to question {name!r} {reason}") from error


def _decision(asked: Asked, body: Any) -> Decision:
    kind = question_body(asked)["type"]
    if body["type"] != kind:
        raise ValueError(f"must be a {kind}, got {body['type']!r}")
    match asked:
        case YesNo():
            yes = _probability(body["noul"])
            return _decided([(True, yes), (False, 1 - yes)], yes >= 0.5)
        case OneOf():
            labels = _labels(asked)
            rows = _distribution(body["probabilities"], labels)
            if body["choice"] not in labels:
                raise ValueError(f"chooses {body['choice']!r}, which is no option")
            at = labels.index(body["choice"])
            if rows[at] < max(rows) - _LESS_SURE:
                raise ValueError(f"chooses {body['choice']!r}, which is not the most probable option")
            return _decided(list(zip(asked.options, rows, strict=True)), asked.options[at])
        case Score():
            numbers = [number for number, _ in asked.told]
            given = {str(level): p for level, p in body["probabilities"].items()}
            rows = _distribution(given, [str(at) for at in range(len(numbers))])
            return _decided(list(zip(numbers, rows, strict=True)), numbers[rows.index(max(rows))])


def _distribution(given: Mapping[str, Any], labels: Sequence[str]) -> list[float]:
    odd = sorted(set(given) ^ set(labels))[:3]
    if odd:
        raise ValueError(f"gives probabilities to other options than were asked: {', '.join(map(repr, odd))}")
    rows = [_probability(given[label]) for label in labels]
    total = sum(rows)
    if abs(total - 1) > _SUM_OFF:
        raise ValueError(f"has probabilities that sum to {total:.3g}, not to 1")
    return [p / total for p in rows]


def _probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise ValueError(f"has a probability that is none: {value!r}")
    return float(value)


def _decided(rows: Sequence[tuple[JsonValue, float]], value: JsonValue) -> Decision:
    found = next(p for option, p in rows if option is value or (type(option) is type(value) and option == value))
    return Decision(value=value, probability=found, probabilities=tuple(rows), legal_mass=None)
