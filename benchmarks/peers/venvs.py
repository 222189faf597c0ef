"""A virtual environment for each peer, made once and kept until its pins change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.roster import Peer

__all__ = ["Skipped", "python_of"]

_STEP_LIMIT_S = 1800


class Skipped(Exception):
    """Raised when a peer cannot take part; its text is the reason, which the table shows."""


def python_of(peer: Peer, folder: Path) -> Path:
    """The interpreter of the peer's environment below `folder`, made first if it is not there.

    Raises Skipped with pip's own last words when a package cannot be installed.
    """
    if not peer.steps:
        return Path(sys.executable)
    home = folder / peer.name
    python = home / "bin" / "python"
    stamp = home / "made_of.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == peer.digest and python.exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    _call([sys.executable, "-m", "venv", str(home)], "the environment could not be made")
    for step in peer.steps:
        _call([str(python), "-m", "pip", "install", "--quiet", *step], f"pip install {step[0]} … failed")
    for name, text in peer.files.items():
        file = next(home.glob("lib/python*/site-packages")) / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    stamp.write_text(peer.digest, encoding="utf-8")
    return python


def _call(command: list[str], failed: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_STEP_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skipped(f"{failed}: {error}") from error
    if done.returncode:
        words = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise Skipped(f"{failed}: {words[-1].strip() if words else f'exit status {done.returncode}'}")
