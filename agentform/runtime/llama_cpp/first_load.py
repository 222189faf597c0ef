"""A GGUF file is first loaded in a process of its own: llama.cpp ends the process over what it did not expect.

    loaded here before? ──yes──▶ loaded in this process
          └──no──▶ python trial_load.py ──whole, or refused with a reason──▶ remembered, loaded in this process
                          └──ended by a signal, or over its memory or time──▶ `WeightsCorrupt`

What is remembered is the file's path, size and time, and the library that read it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentform._util.files import write_atomically
from agentform._util.paths import cache_home
from agentform._util.text import visible_text
from agentform.errors import WeightsCorrupt
from agentform.runtime.llama_cpp.library import find_library
from agentform.runtime.llama_cpp.model import checked_files

__all__ = ["VARIABLE", "is_wanted", "load_elsewhere_first", "try_first"]

VARIABLE = "AGENTFORM_TRIAL_LOAD"
_LOG = logging.getLogger("agentform.runtime")
_SCRIPT = Path(__file__).with_name("trial_load.py")
_LEAST_S = 120.0
_BYTES_PER_S = 10_000_000
"""As slow as a disk may be."""
_MEMORY_BYTES = 4 << 30
"""For its cache, its scratch and Python; the weights come on top, twice where they are laid out anew."""
_SHOWN = 300


def is_wanted(environment: Mapping[str, str] | None = None) -> bool:
    """Whether AGENTFORM_TRIAL_LOAD does not switch it off."""
    return (os.environ if environment is None else environment).get(VARIABLE, "1") != "0"


def try_first(path: Path, wanted: bool | None = None) -> None:
    """Load a file, or all parts of a split one, elsewhere first; `wanted`: by default as the environment says.

    Raises:
        WeightsCorrupt: its head holds what cannot be, or the process ended over it.
        EngineError, MissingDependency: there is no llama.cpp.
    """
    if is_wanted() if wanted is None else wanted:
        load_elsewhere_first(checked_files(path))


def load_elsewhere_first(files: Sequence[Path], *, folder: Path | None = None) -> None:
    """Load a model whose files these are, the first before the others, in another process, unless it was loaded before.

    `folder` is where it is remembered, by default in the user's cache.

    Raises:
        WeightsCorrupt: the process was ended by the file, or by its memory or time.
        EngineError, MissingDependency: there is no llama.cpp.
    """
    mark = (cache_home() / "loaded_gguf" if folder is None else folder) / _name(files)
    if mark.exists():
        return
    _try(files)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(mark, f"{files[0]}\n")
    except OSError as error:
        _LOG.warning("that %s could be loaded is not remembered: %s", files[0], error)


def _name(files: Sequence[Path]) -> str:
    facts = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    library = find_library()
    facts.append((str(library), library.stat().st_size, library.stat().st_mtime_ns))
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _try(files: Sequence[Path]) -> None:
    size = sum(file.stat().st_size for file in files)
    limit_s = _LEAST_S + size / _BYTES_PER_S
    command = [sys.executable, "-I", str(_SCRIPT), str(files[0]), str(_MEMORY_BYTES + 2 * size)]
    with tempfile.TemporaryFile() as said:
        try:
            done = subprocess.run(
                [*command, *filter(None, sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _harmful(files[0], f"it was not loaded within {limit_s:.0f} s", b"") from None
        except OSError as error:
            _LOG.warning("%s is loaded without a trial: no process could be started: %s", files[0], error)
            return
        said.seek(0, os.SEEK_END)
        said.seek(max(0, said.tell() - 4096))
        _judge(files[0], done, said.read())


def _judge(file: Path, done: subprocess.CompletedProcess[bytes], said: bytes) -> None:
    if done.returncode == 0:
        return
    if b"begun" not in done.stdout:
        _LOG.warning("%s is loaded without a trial: its process ended with %d", file, done.returncode)
        return
    raise _harmful(file, f"it ended with {_status(done.returncode)}", said)


def _status(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"status {code}"
    except ValueError:
        return f"signal {-code}"


def _harmful(file: Path, what: str, said: bytes) -> WeightsCorrupt:
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    told = next((line for line in lines if "ASSERT" in line or "error" in line.lower()), lines[-1] if lines else "")
    reason = f": {visible_text(told[:_SHOWN])}" if told else ""
    return WeightsCorrupt(
        f"{file} was first loaded with llama.cpp in a process of its own, and {what}{reason}; it is damaged, made to "
        f"do harm, or for another version of llama.cpp ({VARIABLE}=0 loads it here all the same)"
    )
