"""What every benchmark and study shares: where data is, what machine this is, where results go."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

from agentform.errors import InvalidInput

__all__ = ["PLOTS", "RESULTS", "ROOT", "Context"]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PLOTS = ROOT / "docs" / "plots"
"""Of pages that show their plots."""
_PACKAGES = (
    "agentform",
    "llguidance",
    "xgrammar",
    "pydantic",
    "jsonschema",
    "torch",
    "transformers",
    "tokenizers",
    "triton",
)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One run of one benchmark."""

    name: str
    data: Path | None
    quick: bool
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the command line gave; see the benchmark's `add_arguments`, if it has one."""
    console: Console = field(default_factory=Console)
    results: Path = field(default_factory=lambda: RESULTS)
    """Where the result file goes."""

    @property
    def result_file(self) -> Path:
        """results/NAME.json."""
        return self.results / f"{self.name}.json"

    def need(self, *parts: str) -> Path:
        """A file or folder below `--data`.

        Raises:
            InvalidInput: it is not there.
        """
        wanted = "/".join(parts)
        if self.data is None:
            raise InvalidInput(f"this needs {wanted} in a folder given with --data")
        path = self.data.joinpath(*parts)
        if not path.exists():
            raise InvalidInput(f"this needs {path}")
        return path

    def write(self, figures: Mapping[str, Any], *, seeds: Sequence[int] = ()) -> None:
        """Write results/NAME.json with figures, commit, machine and versions; a quick run writes nothing."""
        if self.quick:
            self.console.print("A quick run: results are not written.")
            return
        self.results.mkdir(exist_ok=True)
        path = self.result_file
        about = {"benchmark": self.name, **_circumstances(), "seeds": list(seeds)}
        path.write_text(json.dumps({**about, "figures": figures}, indent=1) + "\n", encoding="utf-8")
        self.console.print(f"Wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def _circumstances() -> dict[str, Any]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain")),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "system": f"{platform.system()} {platform.release()}"},
        "versions": {"python": platform.python_version(), **_versions()},
    }


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # a machine that got the files only
        return ""
    return done.stdout.strip()
