"""What each grammar engine enforces of JSON Schema, as data; what it does not is left to validation.

A row says how far each engine enforces a keyword:

- `ENFORCED`: no text that the keyword forbids can be generated.
- `PARTLY`: enforced in common cases; the row's note says which are not.
- `VALIDATED`: taken out of the grammar; the true schema refuses the value afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["ENFORCED", "FORMATS", "KEYWORDS", "PARTLY", "VALIDATED", "GrammarEngine", "Keyword", "Level"]

GrammarEngine: TypeAlias = Literal["llguidance", "xgrammar"]
Level: TypeAlias = Literal["enforced", "partly", "validated"]

ENFORCED: Level = "enforced"
PARTLY: Level = "partly"
VALIDATED: Level = "validated"


@dataclass(frozen=True)
class Keyword:
    """One row of the table."""

    name: str
    llguidance: Level
    xgrammar: Level
    note: str = ""

    def level(self, engine: GrammarEngine) -> Level:
        """How far the engine enforces the keyword."""
        return self.llguidance if engine == "llguidance" else self.xgrammar


_ROWS = (
    Keyword("$ref", ENFORCED, PARTLY, "xgrammar: what stands beside a reference is left to validation"),
    Keyword("$defs", ENFORCED, ENFORCED),
    Keyword("definitions", ENFORCED, ENFORCED),
    Keyword("type", ENFORCED, ENFORCED),
    Keyword("enum", ENFORCED, PARTLY, "xgrammar: a type or bound beside it is left to validation"),
    Keyword("const", ENFORCED, ENFORCED),
    Keyword("minimum", PARTLY, PARTLY, "exact up to 2**53; beyond, validation decides"),
    Keyword("maximum", PARTLY, PARTLY, "exact up to 2**53; beyond, validation decides"),
    Keyword("exclusiveMinimum", PARTLY, PARTLY, "exact up to 2**53; beyond, validation decides"),
    Keyword("exclusiveMaximum", PARTLY, PARTLY, "exact up to 2**53; beyond, validation decides"),
    Keyword("multipleOf", ENFORCED, PARTLY, "xgrammar: of integers only"),
    Keyword("minLength", ENFORCED, PARTLY, "xgrammar: not beside a pattern or format"),
    Keyword("maxLength", ENFORCED, PARTLY, "xgrammar: not beside a pattern or format"),
    Keyword("pattern", PARTLY, PARTLY, "lookaround, word boundaries and backreferences are left to validation"),
    Keyword("format", PARTLY, PARTLY, "the formats listed below; others are left to validation"),
    Keyword("items", ENFORCED, ENFORCED),
    Keyword("prefixItems", ENFORCED, ENFORCED),
    Keyword("additionalItems", ENFORCED, VALIDATED),
    Keyword("minItems", ENFORCED, ENFORCED),
    Keyword("maxItems", ENFORCED, ENFORCED),
    Keyword("uniqueItems", VALIDATED, VALIDATED),
    Keyword("contains", VALIDATED, VALIDATED),
    Keyword("minContains", VALIDATED, VALIDATED),
    Keyword("maxContains", VALIDATED, VALIDATED),
    Keyword("unevaluatedItems", VALIDATED, VALIDATED),
    Keyword("properties", ENFORCED, ENFORCED, "in the order in which they are declared"),
    Keyword("required", ENFORCED, PARTLY, "xgrammar: not where only `additionalProperties` describes the key"),
    Keyword("additionalProperties", ENFORCED, ENFORCED, "additional keys stand after the declared ones"),
    Keyword("patternProperties", PARTLY, VALIDATED, "patterns that overlap are left to validation"),
    Keyword("propertyNames", VALIDATED, VALIDATED),
    Keyword(
        "minProperties",
        PARTLY,
        ENFORCED,
        "llguidance: where all declared keys are required, or as 1 in a closed object",
    ),
    Keyword("maxProperties", PARTLY, ENFORCED, "llguidance: where all declared keys are required"),
    Keyword("dependentRequired", VALIDATED, VALIDATED),
    Keyword("dependentSchemas", VALIDATED, VALIDATED),
    Keyword("dependencies", VALIDATED, VALIDATED),
    Keyword("unevaluatedProperties", VALIDATED, VALIDATED),
    Keyword("allOf", ENFORCED, PARTLY, "xgrammar: one part is enforced, the others where they share no keyword"),
    Keyword("anyOf", ENFORCED, PARTLY, "xgrammar: what stands beside it is left to validation"),
    Keyword("oneOf", PARTLY, PARTLY, "as `anyOf`, unless the arms are seen to exclude one another"),
    Keyword("not", VALIDATED, VALIDATED),
    Keyword("if", VALIDATED, VALIDATED),
    Keyword("then", VALIDATED, VALIDATED),
    Keyword("else", VALIDATED, VALIDATED),
)

KEYWORDS = {row.name: row for row in _ROWS}
"""Every keyword that constrains; any other that is not an annotation is left to validation."""

_BOTH = frozenset(["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"])

FORMATS: dict[GrammarEngine, frozenset[str]] = {
    "llguidance": _BOTH,
    "xgrammar": _BOTH | frozenset(["uri-reference", "uri-template", "json-pointer", "relative-json-pointer"]),
}
"""Formats that the engine enforces, by and large: that a date exists is left to validation."""
