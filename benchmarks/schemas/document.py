"""The tables of docs/schema_support.md, from keyword tables and ratchet: `python -m benchmarks.schemas.document`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from agentform.grammar.keywords import FORMATS, KEYWORDS
from agentform.json_schema.keywords import ANNOTATIONS
from agentform.schema.keywords import LEFT_TO_VALIDATION
from benchmarks.common.harness import ROOT
from benchmarks.common.tables import between_marks
from benchmarks.schemas.suite import RATCHET

__all__ = ["DOCUMENT", "render"]

DOCUMENT = ROOT / "docs" / "schema_support.md"
_MARKS = "tables"
_LEVELS = {"enforced": "yes", "partly": "partly", "validated": "validation"}


def render(text: str) -> str:
    """The document with its tables as the data says."""
    return between_marks(text, _MARKS, "\n".join(_tables()))


def _tables() -> Iterator[str]:
    yield "### Keywords"
    yield ""
    yield "| keyword | llguidance | xgrammar | note |"
    yield "|---|---|---|---|"
    for row in KEYWORDS.values():
        yield f"| `{row.name}` | {_LEVELS[row.llguidance]} | {_LEVELS[row.xgrammar]} | {row.note} |"
    yield ""
    yield f"Only annotations: {_words(ANNOTATIONS)}, and every keyword that begins with `x-`."
    yield ""
    yield f"Beside the properties of an object, a form leaves to validation: {_words(LEFT_TO_VALIDATION)}."
    yield ""
    yield "### Formats in the grammar"
    yield ""
    yield "| format | llguidance | xgrammar |"
    yield "|---|---|---|"
    for name in sorted(FORMATS["llguidance"] | FORMATS["xgrammar"]):
        levels = ("yes" if name in FORMATS[engine] else "validation" for engine in ("llguidance", "xgrammar"))
        yield f"| `{name}` | {' | '.join(levels)} |"
    if RATCHET.exists():
        yield from _suite(json.loads(RATCHET.read_text(encoding="utf-8")))


def _suite(found: Any) -> Iterator[str]:
    yield ""
    yield "### The test suite through the grammar (llguidance)"
    yield ""
    yield "| draft | file | right | accepts wrongly | refuses wrongly | schema refused |"
    yield "|---|---|---|---|---|---|"
    for draft, item in found.items():
        total: Counter[str] = Counter()
        for name, counts in item["files"].items():
            total.update(counts)
            if set(counts) != {"right"}:
                yield _row(draft, f"`{name}`", counts)
        yield _row(draft, "**all files**", total)


def _row(draft: str, name: str, counts: Any) -> str:
    said = (str(counts.get(key, 0)) for key in ("right", "false_accept", "false_refusal", "refused_schema"))
    return f"| {draft} | {name} | {' | '.join(said)} |"


def _words(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


if __name__ == "__main__":
    DOCUMENT.write_text(render(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
