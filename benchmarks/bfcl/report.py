"""The run itself: every item asked of both servers by turns, Berkeley's verdicts, a table and a result file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import track

from agentform._util.paths import cache_home
from agentform.cli.tables import Table
from agentform.errors import InvalidInput
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.resolve import catalogue_gguf
from benchmarks.bfcl.asking import Answer, ask
from benchmarks.bfcl.scorer import VERSION, Scorer
from benchmarks.bfcl.servers import SERVERS, served
from benchmarks.common.bootstrap import difference, ratio
from benchmarks.common.harness import Context

__all__ = ["CATEGORIES", "run"]

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)
"""Of the single turns those that are checked as Python."""
_SEED = 7


def run(context: Context) -> None:
    """See the package.

    Raises:
        InvalidInput: there is no such model or category, or bfcl-eval cannot be had.
    """
    categories = _categories(context)
    items = 2 if context.quick else context.options["items"]
    scorer = Scorer()
    tasks = scorer.tasks(categories, items=items)
    answers = _ask_all(context, tasks)
    verdicts = {name: _verdicts(scorer, tasks, answers[name]) for name in SERVERS}
    rows = [_row(category, tasks, answers, verdicts) for category in categories]
    total = _compared("all", [task["id"] for task in tasks], answers, verdicts)
    context.console.print(_table([*rows, total]))
    kept = {name: {item: asdict(answer) for item, answer in each.items()} for name, each in answers.items()}
    context.write(
        {
            "bfcl_eval": VERSION,
            "model": context.options["model"],
            "threads": context.options["threads"],
            "items_a_category": items,
            "categories": rows,
            "all": total,
            "answers": kept,
            "verdicts": verdicts,
        },
        seeds=[_SEED],
    )


def _categories(context: Context) -> Sequence[str]:
    asked = context.options.get("only") or CATEGORIES
    if unknown := sorted(set(asked) - set(CATEGORIES)):
        raise InvalidInput(f"no category {', '.join(unknown)}; there are {', '.join(CATEGORIES)}")
    return asked


def _ask_all(context: Context, tasks: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Answer]]:
    """Answers by server and item; each is written down as it comes, and what is there is not asked again."""
    model, threads = context.options["model"], context.options["threads"]
    if model not in CATALOGUE:
        raise InvalidInput(f"no model {model!r} in the catalogue; there are {', '.join(sorted(CATALOGUE))}")
    gguf = catalogue_gguf(CATALOGUE[model])
    work = cache_home() / "benchmarks" / f"bfcl-{model}-{threads}"
    work.mkdir(parents=True, exist_ok=True)
    journals = {name: work / f"{name}.jsonl" for name in SERVERS}
    answers = {name: _read(journal) for name, journal in journals.items()}
    with ExitStack() as stack:
        addresses: dict[str, str] = {}
        for number, task in enumerate(track(tasks, "items", console=context.console)):
            for name in SERVERS if number % 2 else SERVERS[::-1]:
                if task["id"] in answers[name]:
                    continue
                if name not in addresses:
                    log = work / f"{name}.log"
                    addresses[name] = stack.enter_context(served(name, gguf, threads=threads, log=log))
                answers[name][task["id"]] = answer = ask(addresses[name], task)
                if not answer.error:  # else it is asked again by the next run
                    _add(journals[name], task["id"], answer)
    wanted = {task["id"] for task in tasks}
    return {name: {item: found[item] for item in found if item in wanted} for name, found in answers.items()}


def _read(journal: Path) -> dict[str, Answer]:
    if not journal.exists():
        return {}
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return {line["id"]: Answer(**line["answer"]) for line in lines}


def _add(journal: Path, item: str, answer: Answer) -> None:
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": item, "answer": asdict(answer)}) + "\n")


def _verdicts(scorer: Scorer, tasks: Sequence[Mapping[str, Any]], answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Berkeley's; a request that failed is wrong whatever was asked."""
    found = scorer.score(_by_category(tasks, answers))
    failed = {item: {"valid": False, "error": answer.error} for item, answer in answers.items() if answer.error}
    return {**found, **failed}


def _by_category(tasks: Sequence[Mapping[str, Any]], answers: Mapping[str, Answer]) -> dict[str, dict[str, Any]]:
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for task in tasks:
        found[task["category"]][task["id"]] = answers[task["id"]].calls
    return dict(found)


def _row(
    category: str,
    tasks: Sequence[Mapping[str, Any]],
    answers: Mapping[str, Mapping[str, Answer]],
    verdicts: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    return _compared(category, [task["id"] for task in tasks if task["category"] == category], answers, verdicts)


def _compared(
    name: str,
    ids: Sequence[str],
    answers: Mapping[str, Mapping[str, Answer]],
    verdicts: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    right = {server: [bool(verdicts[server][item]["valid"]) for item in ids] for server in SERVERS}
    ours, theirs = SERVERS
    seconds = {server: {item: answers[server][item].seconds for item in ids} for server in SERVERS}
    slower = ratio(seconds[theirs], seconds[ours])
    return {
        "category": name,
        "items": len(ids),
        "right": {server: sum(right[server]) for server in SERVERS},
        "difference": difference(
            [[each] for each in right[ours]], [[each] for each in right[theirs]], seed=_SEED
        ).as_dict(),
        "invalid": {server: sum(answers[server][item].invalid for item in ids) for server in SERVERS},
        "errors": {server: sum(bool(answers[server][item].error) for item in ids) for server in SERVERS},
        "seconds_theirs_over_ours": slower.as_dict() if slower is not None else None,
        "written_tokens": {
            server: sum(answers[server][item].completion_tokens for item in ids) / max(1, len(ids))
            for server in SERVERS
        },
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("category", "items", *SERVERS, "difference", "invalid", "time", title="Right by Berkeley's checker")
    for row in rows:
        gap, slower = row["difference"], row["seconds_theirs_over_ours"]
        table.add_row(
            row["category"],
            str(row["items"]),
            *(f"{row['right'][server] / max(1, row['items']):.0%}" for server in SERVERS),
            f"{100 * gap['mean']:+.0f} [{100 * gap['low']:.0f}, {100 * gap['high']:.0f}]",
            " / ".join(str(row["invalid"][server]) for server in SERVERS),
            f"{slower['median']:.2f}x" if slower else "",
        )
    return table
