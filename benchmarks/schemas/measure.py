"""What is measured of one case: by a grammar engine, and by agentform's form and validator."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from agentform.errors import AgentformError
from agentform.grammar.vocabulary import Vocabulary
from agentform.schema.closed_values import identity
from agentform.schema.form import Choice, Fixed, Free, Node, Record, Repeat, Subset, Union
from agentform.schema.target import load
from benchmarks.schemas.cases import Case
from benchmarks.schemas.engines import Agentform, Engine, Following, grammar_text

__all__ = ["Grammatical", "Whole", "measure_form", "measure_grammar"]

_TIMED_MASKS = 64


@dataclass(frozen=True, kw_only=True)
class Grammatical:
    """One engine on one case."""

    error: str = ""
    """Why the schema did not compile."""
    compile_s: float = 0.0
    first_mask_s: float = 0.0
    """Seconds from the schema to the first mask."""
    mask_s: tuple[float, ...] = ()
    """Seconds for each further mask along the valid instances, the first ones of each case."""
    accepted: tuple[bool, ...] = ()
    """For each instance."""
    relaxed: int = 0
    """Constraints that the grammar says it does not enforce; agentform alone says."""
    in_place_s: float = 0.0
    """Seconds for compiling it again between other text, as calls do; agentform alone."""


@dataclass(frozen=True, kw_only=True)
class Whole:
    """agentform's form and validator on one case."""

    error: str = ""
    form_s: float = 0.0
    """Seconds for loading the schema: draft, references, form, keyword checks."""
    valid: tuple[bool, ...] = ()
    """The validator's verdict on each instance."""
    writable: tuple[bool, ...] = ()
    """Whether the form has a place for everything in the instance."""


def measure_grammar(engine: Engine, vocabulary: Vocabulary, case: Case, *, own: bool) -> Grammatical:
    """Compile, take the masks along the first valid instances, and see which instances pass."""
    try:
        schema = grammar_text(case.schema) if own else case.schema
        started = time.perf_counter()
        compiled = engine.compile(schema)
    except (AgentformError, ValueError, TypeError, RecursionError) as error:
        return Grammatical(error=str(error)[:300])
    compile_s = time.perf_counter() - started
    engine.follow(compiled).mask()
    first_mask_s = time.perf_counter() - started
    in_place_s = engine.time_in_place(schema) if isinstance(engine, Agentform) else 0.0
    texts = [vocabulary.tokenize(_text(value)) for value, _ in case.instances]
    masks: list[float] = []
    for ids, (_, valid) in zip(texts, case.instances, strict=True):
        if valid and len(masks) < _TIMED_MASKS:
            masks += _mask_times(engine.follow(compiled), ids, _TIMED_MASKS - len(masks))
    return Grammatical(
        compile_s=compile_s,
        first_mask_s=first_mask_s,
        mask_s=tuple(masks),
        accepted=tuple(_accepts(engine.follow(compiled), ids) for ids in texts),
        relaxed=len(getattr(compiled, "relaxed", ())),
        in_place_s=in_place_s,
    )


def measure_form(case: Case) -> Whole:
    """Load the schema as a target; judge every instance."""
    started = time.perf_counter()
    try:
        target = load(case.schema, lenient=True)
    except AgentformError as error:
        return Whole(error=str(error)[:300])
    form_s = time.perf_counter() - started
    values = [value for value, _ in case.instances]
    return Whole(
        form_s=form_s,
        valid=tuple(not target.validator.check(value) for value in values),
        writable=tuple(_writes(target.form.root, value) for value in values),
    )


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def _accepts(following: Following, ids: list[int]) -> bool:
    return all(following.take(token) for token in ids) and following.is_complete()


def _mask_times(following: Following, ids: list[int], limit: int) -> list[float]:
    times: list[float] = []
    for token in ids[:limit]:
        started = time.perf_counter()
        following.mask()
        times.append(time.perf_counter() - started)
        if not following.take(token):
            break
    return times[1:]


def _writes(node: Node, value: Any) -> bool:
    match node:
        case Free():
            return True
        case Fixed():
            return identity(node.value) == identity(value)
        case Choice():
            return identity(value) in {identity(option) for option in node.options}
        case Union():
            return any(_writes(arm, value) for arm in node.arms)
        case Subset():
            known = {identity(option) for option in node.options}
            return isinstance(value, list) and {identity(item) for item in value} <= known
        case Repeat():
            return isinstance(value, list) and len(value) <= len(node.items) and all(map(_writes, node.items, value))
        case Record():
            return isinstance(value, dict) and _writes_members(node, value)


def _writes_members(node: Record, value: dict[str, Any]) -> bool:
    fields = {field.name: field for field in node.fields}
    if not value.keys() <= fields.keys():
        return False
    return all(
        _writes(field.node, value[name]) if name in value else not field.required or _closed(field.node)
        for name, field in fields.items()
    )


def _closed(node: Node) -> bool:
    """Whether a field that is always written has a value that means the same as leaving it out."""
    return isinstance(node, (Fixed, Choice, Union, Subset, Repeat))
