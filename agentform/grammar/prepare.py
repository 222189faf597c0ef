"""A JSON Schema in the words that a grammar engine understands, and what it loses on the way."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from agentform._util.exact import exact
from agentform.errors import GrammarError, Relaxation
from agentform.grammar.keywords import FORMATS, KEYWORDS, VALIDATED, GrammarEngine
from agentform.json_schema.keywords import Schema, SchemaDict, is_annotation
from agentform.json_schema.pointer import pointer
from agentform.json_schema.walk import map_subschemas

__all__ = ["Prepared", "grammar_relaxations", "pattern_fault", "prepare"]

_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_BACKREFERENCE = re.compile(r"\\[1-9]|\\k<|\(\?P=")
_BOUNDARY = re.compile(r"\\[bB]")

_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_COUNTS = frozenset({"minProperties", "maxProperties"})
_WHOLE = _COUNTS | {"minLength", "maxLength", "minItems", "maxItems"}
_EXACT = 2**53
_FARTHEST = 10**18 - 128
"""The greatest float below what llguidance counts to."""
_MOST_REMAINDERS = 10_000
"""An engine counts in steps by remainders, and looks at each of them: ten thousand take it half a second."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A schema that an engine takes, and what was taken out of it for that."""

    schema: Schema
    relaxed: tuple[Relaxation, ...]


def grammar_relaxations(
    schema: Mapping[str, Any] | bool, engine: GrammarEngine = "llguidance"
) -> tuple[Relaxation, ...]:
    """What a grammar made from the schema does not enforce, by the engine's keyword table.

    A compiled grammar's own list may be longer: an engine can find more when it sees the whole.
    """
    return prepare(schema if isinstance(schema, bool) else dict(schema), engine).relaxed


def prepare(
    schema: Schema,
    engine: GrammarEngine,
    *,
    fault_of: Callable[[str], str] | None = None,
    step_fault: Callable[[float], str] | None = None,
) -> Prepared:
    """The schema without annotations and without what the engine does not enforce.

    `fault_of` says why a regular expression cannot be used, or `""`; by default `pattern_fault` does. `step_fault`
    says so of the step of a `multipleOf`; by default every step can be.

    Raises:
        GrammarError: for a schema that is nested too deeply to be walked through.
    """
    preparing = _Preparing(engine, fault_of or pattern_fault, step_fault or (lambda step: ""))
    try:
        made = preparing.schema(schema, "")
    except RecursionError:
        raise GrammarError("the JSON Schema is nested too deeply") from None
    return Prepared(schema=made, relaxed=tuple(preparing.relaxed))


def pattern_fault(pattern: str) -> str:
    """Why no grammar engine takes the regular expression, as far as its text tells; `""` when it may."""
    text = pattern.replace("\\\\", "")  # an escaped backslash escapes nothing after it
    if _LOOKAROUND.search(text):
        return "lookaround"
    if _BACKREFERENCE.search(text):
        return "a backreference"
    return "a word boundary" if _BOUNDARY.search(text) else ""


class _Preparing:
    def __init__(
        self, engine: GrammarEngine, fault_of: Callable[[str], str], step_fault: Callable[[float], str]
    ) -> None:
        self._engine: GrammarEngine = engine
        self._fault_of = fault_of
        self._step_fault = step_fault
        self.relaxed: list[Relaxation] = []

    def schema(self, schema: Schema, at: str) -> Schema:
        if isinstance(schema, bool):
            return schema
        kept = {keyword: value for keyword, value in schema.items() if self._keeps(keyword, value, at)}
        if "patternProperties" in kept:
            self._drop_patterns(kept, at)
        elif "patternProperties" in schema:
            kept.pop("additionalProperties", None)  # it would forbid what the patterns allow
        for keyword in _WHOLE & kept.keys():
            if isinstance(kept[keyword], float):  # engines pass over 2.0 where they look for a count
                kept[keyword] = int(kept[keyword])
        self._drop_counts(kept, at)
        self._weaken_bounds(kept, at)
        kept = self._with_literals(self._with_steps(kept, at), at)
        return map_subschemas(kept, lambda path, item: self.schema(item, at + pointer(path)))

    def _keeps(self, keyword: str, value: Any, at: str) -> bool:
        if is_annotation(keyword):
            return False
        reason = self._reason(keyword, value)
        if reason and not _says_nothing(keyword, value):
            self._relax(at + pointer((keyword,)), f"{keyword}: {reason}")
        return not reason

    def _reason(self, keyword: str, value: Any) -> str:
        """Why the keyword is taken out; `""` when it stays."""
        row = KEYWORDS.get(keyword)
        if row is None:
            return "unknown to grammars, ignored"
        if row.level(self._engine) == VALIDATED:
            return "left to validation"
        if keyword == "format" and value not in FORMATS[self._engine]:
            return f"{value!r} is left to validation"
        if keyword == "pattern" and (fault := self._fault_of(str(value))):
            return f"it has {fault}, left to validation"
        return ""

    def _drop_patterns(self, schema: SchemaDict, at: str) -> None:
        faults = {pattern: self._fault_of(pattern) for pattern in schema["patternProperties"]}
        if not any(faults.values()):
            return
        kept = {key: item for key, item in schema["patternProperties"].items() if not faults[key]}
        schema["patternProperties"] = kept
        schema.pop("additionalProperties", None)  # it would now forbid what the dropped patterns allowed
        for pattern, fault in faults.items():
            if fault:
                where = at + pointer(("patternProperties", pattern))
                self._relax(where, f"patternProperties: the pattern has {fault}, left to validation")

    def _drop_counts(self, schema: SchemaDict, at: str) -> None:
        """llguidance counts additional keys only, so counts are wrong where a declared key may be left out."""
        if self._engine != "llguidance" or set(schema.get("properties", ())) <= set(schema.get("required", ())):
            return
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        for keyword in _COUNTS & schema.keys():
            if not (keyword == "minProperties" and schema[keyword] <= 1 and closed):
                del schema[keyword]
                self._relax(f"{at}/{keyword}", f"{keyword}: left to validation, since keys may be left out")

    def _weaken_bounds(self, schema: SchemaDict, at: str) -> None:
        """Engines hold bounds as floats: beyond 2**53 those are not exact, and would refuse what is legal."""
        for keyword in sorted(_BOUNDS & schema.keys()):
            bound = schema[keyword]
            if abs(bound) <= _EXACT:
                continue
            del schema[keyword]
            lower = "inimum" in keyword
            held = _held(bound, lower, _FARTHEST if self._engine == "llguidance" else _EXACT)
            if held is not None:
                said, better = ("minimum", max) if lower else ("maximum", min)
                schema[said] = better(schema.get(said, held), held)
            if held != bound or "exclusive" in keyword:
                kept = "left to validation" if held is None else f"held to {held}, the rest is left to validation"
                self._relax(f"{at}/{keyword}", f"{keyword}: {bound} is {kept}; numbers are exact up to 2**53")

    def _with_literals(self, schema: SchemaDict, at: str) -> SchemaDict:
        """Whole numbers beyond 2**53 among the values would be written as their floats, which are others."""
        keyword = next((key for key in ("const", "enum") if key in schema), None)
        if keyword is None:
            return schema
        values = [schema["const"]] if keyword == "const" else schema["enum"]
        beyond = [value for value in values if _is_beyond(value)]
        if not beyond:
            return schema
        self._relax(f"{at}/{keyword}", f"{keyword}: left to validation, numbers are exact up to 2**53")
        kept = {key: item for key, item in schema.items() if key not in ("const", "enum")}
        if not all(isinstance(value, int) for value in beyond):
            return kept
        exact_ones = [value for value in values if not _is_beyond(value)]
        found: SchemaDict = {"type": "integer", "minimum": min(beyond), "maximum": max(beyond)}
        self._weaken_bounds(found, f"{at}/{keyword}")
        arms = [{"enum": exact_ones}, found] if exact_ones else [found]
        # Beside a union nothing else is needed: what else there is holds for all the values anyway, or for none.
        return found if len(arms) == 1 else {"anyOf": arms}

    def _with_steps(self, schema: SchemaDict, at: str) -> SchemaDict:
        """Bounds move to the multiples next to them: there engines that compare floats are right about decimals."""
        step = schema.get("multipleOf")
        if step is None:
            return schema
        if exact(step).denominator == 1 and schema.get("type") == "number":
            schema = {**schema, "type": "integer"}
        if not (fault := _long_count(step) or self._step_fault(step)):
            return schema if isinstance(schema.get("type"), list) else _aligned(schema, step)
        self._relax(f"{at}/multipleOf", f"multipleOf: {step} is {fault}, left to validation")
        kept = {keyword: value for keyword, value in schema.items() if keyword != "multipleOf"}
        finer = _power_of_ten(step)
        # Multiples of 0.07 are multiples of 0.01: that much is kept.
        return kept if finer is None or self._step_fault(finer) else self._with_steps({**kept, "multipleOf": finer}, at)

    def _relax(self, at: str, what: str) -> None:
        self.relaxed.append(Relaxation(pointer=at, what=what))


def _held(bound: float, lower: bool, most: int) -> int | None:
    """The nearest bound outside that a float holds exactly, up to `most`; `None` where none is left."""
    if abs(bound) > most:
        return (most if lower else -most) if (bound > 0) == lower else None
    if int(float(bound)) == bound and abs(bound) < most:
        return int(bound)
    near = float(bound)
    if (near > bound) if lower else (near < bound):
        near = math.nextafter(near, -math.inf if lower else math.inf)
    return int(near)


def _is_beyond(value: Any) -> bool:
    """Whether a value is or holds a whole number that no float need hold."""
    match value:
        case bool() | None | str():
            return False
        case int():
            return abs(value) > _EXACT
        case list():
            return any(map(_is_beyond, value))
        case dict():
            return any(map(_is_beyond, value.values()))
        case _:
            return False


def _power_of_ten(step: float) -> float | None:
    """The power of ten below one of which the step is a multiple, if it is not that itself."""
    size = exact(step)
    places = len(format(Decimal(size.numerator) / size.denominator, "f").partition(".")[2])
    found = Fraction(1, 10**places)
    return None if size.denominator == 1 or found == size else float(found)


def _long_count(step: float) -> str:
    return "a step with too many remainders" if exact(step).numerator > _MOST_REMAINDERS else ""


def _aligned(schema: SchemaDict, step: float) -> SchemaDict:
    """The schema with its bounds at the outermost multiples of the step that they allow."""
    size = exact(step)
    lows = [math.ceil(exact(schema[k]) / size) for k in ("minimum",) if k in schema]
    lows += [math.floor(exact(schema[k]) / size) + 1 for k in ("exclusiveMinimum",) if k in schema]
    highs = [math.floor(exact(schema[k]) / size) for k in ("maximum",) if k in schema]
    highs += [math.ceil(exact(schema[k]) / size) - 1 for k in ("exclusiveMaximum",) if k in schema]
    ends = ({"minimum": max(lows) * size} if lows else {}) | ({"maximum": min(highs) * size} if highs else {})
    if any(abs(end) > _EXACT for end in ends.values()):
        return schema
    kept = {keyword: value for keyword, value in schema.items() if keyword not in _BOUNDS}
    return kept | {keyword: _number(_reachable(end, size, keyword)) for keyword, end in ends.items()}


def _reachable(end: Fraction, size: Fraction, keyword: str) -> Fraction:
    """The bound, moved outward where llguidance could not write it: steps of 0.25 are written with two decimals.

    Beside a bound of 0.5 it does not take 0.50; beside 0.51 it does, and no other multiple lies between.
    """
    places = len(format(Decimal(size.numerator) / size.denominator, "f").partition(".")[2])
    last = Fraction(1, 10**places)
    if end.denominator == 1 or size == last or (end / last) % 10:
        return end
    return end + last if keyword == "maximum" else end - last


def _number(value: Fraction) -> float:
    return value.numerator if value.denominator == 1 else float(value)


def _says_nothing(keyword: str, value: Any) -> bool:
    return (keyword == "uniqueItems" and value is False) or (keyword.startswith("unevaluated") and value is True)
