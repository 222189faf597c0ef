"""The JSON Schema Test Suite through the validator and through the grammar."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentform.cli.tables import Table
from agentform.errors import AgentformError, GrammarError
from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.schema.draft import JsonSchemaDraft
from agentform.schema.json_text import dumps
from agentform.schema.refs import Document
from agentform.schema.target import load
from agentform.schema.validate import SchemaValidator
from benchmarks.common.harness import Context
from benchmarks.schemas.cases import tokenizer_json, vocabulary_of

__all__ = ["DRAFTS", "RATCHET", "run_suite", "show"]

DRAFTS: dict[JsonSchemaDraft, str] = {"2020-12": "draft2020-12", "7": "draft7"}
RATCHET = Path(__file__).parent / "ratchet.json"
_REMOTES = "http://localhost:1234/"


@dataclass(frozen=True, kw_only=True)
class Group:
    """One schema of the suite and its tests."""

    file: str
    schema: Any
    tests: tuple[Mapping[str, Any], ...]
    name: str


def run_suite(context: Context) -> dict[str, Any]:
    """Validate everything that the suite requires; follow the grammar's faults with a ratchet."""
    folder = context.need("schemas", "JSON-Schema-Test-Suite")
    remotes = _remotes(folder / "remotes")
    vocabulary = vocabulary_of(tokenizer_json(context))
    figures: dict[str, Any] = {}
    for draft, name in DRAFTS.items():
        required = list(_groups(folder / "tests" / name))
        formats = list(_groups(folder / "tests" / name / "optional" / "format"))
        figures[draft] = {
            "validator": _validate(required, draft, remotes, assert_formats=False),
            "formats": _validate(formats, draft, remotes, assert_formats=True),
            "grammar": _follow(required, draft, vocabulary),
        }
    figures["ratchet"] = _compare({draft: figures[draft]["grammar"] for draft in DRAFTS}, write=not context.quick)
    return figures


def _groups(folder: Path) -> Iterator[Group]:
    for path in sorted(folder.glob("*.json")):
        for item in json.loads(path.read_text(encoding="utf-8")):
            yield Group(file=path.stem, schema=item["schema"], tests=tuple(item["tests"]), name=item["description"])


def _remotes(folder: Path) -> dict[str, Any]:
    return {
        _REMOTES + path.relative_to(folder).as_posix(): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.json"))
    }


def _validate(groups: list[Group], draft: JsonSchemaDraft, remotes: Any, *, assert_formats: bool) -> dict[str, Any]:
    passed, failed = 0, []
    for group in groups:
        validator = SchemaValidator(group.schema, draft, assert_formats=assert_formats, documents=remotes)
        for test in group.tests:
            holds = (not validator.check(test["data"])) == test["valid"]
            passed += holds
            if not holds:
                failed.append(f"{group.file}: {group.name}: {test['description']}")
    return {"passed": passed, "num_tests": passed + len(failed), "failed": failed}


def _follow(groups: list[Group], draft: JsonSchemaDraft, vocabulary: Vocabulary) -> dict[str, Any]:
    """Each test's instance through the grammar of its schema, as agentform writes it."""
    compiler = Compiler(vocabulary, keep=1)
    counts: dict[str, Counter[str]] = {}
    wrong: list[str] = []
    for group in groups:
        of_file = counts.setdefault(group.file, Counter())
        try:
            load(group.schema, lenient=True)
            text = dumps(Document(group.schema, draft).closed({"$ref": "#"}))
            compiled = compiler.compile(GrammarSpec(kind="json_schema", text=text))
        except AgentformError as error:
            of_file["refused_schema" if not isinstance(error, GrammarError) else "not_compiled"] += len(group.tests)
            continue
        for test in group.tests:
            outcome = _outcome(compiled.matcher(), vocabulary, test)
            of_file[outcome] += 1
            if outcome in ("false_accept", "false_refusal"):
                wrong.append(_mark(draft, group, test))
    return {"files": {name: dict(sorted(item.items())) for name, item in counts.items()}, "wrong": sorted(wrong)}


def _outcome(matcher: Any, vocabulary: Vocabulary, test: Mapping[str, Any]) -> str:
    try:
        for token in vocabulary.tokenize(dumps(test["data"]).encode()):
            matcher.accept(token)
        accepted = matcher.is_complete()
    except GrammarError:
        accepted = False
    if accepted == test["valid"]:
        return "right"
    return "false_accept" if accepted else "false_refusal"


def _mark(draft: JsonSchemaDraft, group: Group, test: Mapping[str, Any]) -> str:
    said = json.dumps([draft, group.file, group.name, test["description"]])
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def _compare(found: Mapping[str, Any], *, write: bool) -> dict[str, Any]:
    """New faults and cured ones against the ratchet file, which is written when no fault is new."""
    known = json.loads(RATCHET.read_text(encoding="utf-8")) if RATCHET.exists() else None
    new = {d: sorted({*item["wrong"]} - {*known[d]["wrong"]}) if known else [] for d, item in found.items()}
    cured = {d: sorted({*known[d]["wrong"]} - {*item["wrong"]}) if known else [] for d, item in found.items()}
    if write and not any(new.values()):
        RATCHET.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return {"new": new, "cured": cured}


def show(context: Context, figures: Mapping[str, Any]) -> None:
    """Print what holds of the suite."""
    table = Table(
        "draft", "validator", "formats", "grammar right", "accepts wrongly", "refuses wrongly", "schema refused"
    )
    for draft in DRAFTS:
        item = figures[draft]
        totals: Counter[str] = Counter()
        for counts in item["grammar"]["files"].values():
            totals.update(counts)
        table.add_row(
            draft,
            f"{item['validator']['passed']:,} / {item['validator']['num_tests']:,}",
            f"{item['formats']['passed']:,} / {item['formats']['num_tests']:,}",
            *(f"{totals[key]:,}" for key in ("right", "false_accept", "false_refusal", "refused_schema")),
        )
    context.console.print(table)
    for draft in DRAFTS:
        for name in figures[draft]["validator"]["failed"]:
            context.console.print(f"[red]SHORT[/] validator, draft {draft}: {name}")
        for mark in figures["ratchet"]["new"][draft]:
            context.console.print(f"[red]SHORT[/] grammar, draft {draft}: fault {mark} is not in the ratchet file")
