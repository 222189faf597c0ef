"""Drives every client and tells which of its features work."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.clients.roster import ClientPackage, client_packages
from benchmarks.clients.served import FEATURES, served_features
from benchmarks.common.harness import ROOT, Context
from benchmarks.common.tables import figures_table, rewrite

__all__ = ["driven", "report"]

_PAGE = ROOT / "docs" / "serve.md"
_LONGEST_S = 600


def report(context: Context, environments: Path, *, only: str) -> None:
    """Drive, print, and write the rows and the table of the documentation."""
    rows: list[dict[str, Any]] = []
    for client in client_packages():
        python = client.python(environments, may_install=not context.quick) if only in client.name else None
        if python is None:
            continue
        installed = _installed(python, client)
        for variant in client.variants:
            head = {"client": client.name, "api": variant, "versions": installed}
            rows.append(head | driven(client, variant, python))
            context.console.print(rows[-1])
    shown = [[row["client"], row["api"], *(_cell(row, name) for name in FEATURES)] for row in rows]
    context.console.print(figures_table("clients", ["client", "API", *FEATURES], shown))
    if not only and not context.quick:
        context.write({"rows": rows})
        rewrite(_PAGE, "clients", _markdown(rows))


def _installed(python: Path, client: ClientPackage) -> list[str]:
    frozen = subprocess.run(
        [str(python), "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    names = {required.partition("[")[0].partition("=")[0] for required in client.requires} | {"openai", "anthropic"}
    return [line for line in frozen if line.partition("==")[0] in names]


def driven(client: ClientPackage, variant: str, python: Path) -> dict[str, Any]:
    """By feature `None` where it works, else what went wrong; features that a client lacks are left out."""
    driver = client.drivers / f"{client.variants[variant]}.py"
    with served_features(client, variant) as urls:
        try:
            done = subprocess.run(
                [str(python), "-P", str(driver), json.dumps(urls), variant],
                capture_output=True,
                text=True,
                timeout=_LONGEST_S,
                env={**_environment(), "PYTHONPATH": str(client.drivers)},
            )
        except subprocess.TimeoutExpired:
            return {"features": {}, "fault": f"not done within {_LONGEST_S} s"}
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"feature"')]
    return {
        "features": {each["feature"]: each["error"] for each in told},
        "fault": done.stderr[-500:] if done.returncode else None,
    }


def _environment() -> dict[str, str]:
    """Without what would lead a client elsewhere, and without reports to its makers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "ANTHROPIC_"))}
    return kept | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_AGENTS_DISABLE_TRACING": "1"}


def _shown(found: str | None) -> str:
    return "yes" if found is None else "no"


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = ["| client | API | " + " | ".join(name.replace("_", " ") for name in FEATURES) + " |"]
    lines.append("|" + "---|" * (2 + len(FEATURES)))
    for row in rows:
        told = [_cell(row, name) for name in FEATURES]
        lines.append(f"| {', '.join(row['versions'])} | {row['api']} | {' | '.join(told)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any], name: str) -> str:
    return _shown(row["features"][name]) if name in row["features"] else "–"
