"""Which shared library of llama.cpp is used: the user's own build, or that of an installed package.

::

    AGENTFORM_LIBLLAMA ──▶ xllamacpp (the extra `llama`) ──▶ llama-cpp-python
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

from agentform._util.install import install_line
from agentform.errors import EngineError, MissingDependency

__all__ = ["VARIABLE", "find_library"]

VARIABLE = "AGENTFORM_LIBLLAMA"
_FILE_NAMES = {"win32": "llama.dll", "darwin": "libllama.dylib"}


def find_library(environment: Mapping[str, str] | None = None) -> Path:
    """The library file.

    Raises:
        EngineError: AGENTFORM_LIBLLAMA names no file.
        MissingDependency: there is no llama.cpp.
    """
    named = (os.environ if environment is None else environment).get(VARIABLE)
    if named:
        return _named(Path(named).expanduser())
    found = _of_xllamacpp() or _of_llama_cpp_python()
    if found is None:
        raise MissingDependency(
            f"llama.cpp is needed to run GGUF files: {install_line('llama')}, or install llama-cpp-python "
            f"(0.3.36), or set {VARIABLE} to the libllama of a build of your own"
        )
    return found


def _named(path: Path) -> Path:
    """A file, or the folder that it lies in."""
    place = path / _file_name() if path.is_dir() else path
    if not place.is_file():
        raise EngineError(f"{VARIABLE} is {path}, where there is no {_file_name()}; it takes that file or its folder")
    return place


def _of_xllamacpp() -> Path | None:
    folder = _package("xllamacpp")
    suffixes = tuple(EXTENSION_SUFFIXES)
    return next((p for p in sorted(folder.iterdir()) if p.name.endswith(suffixes)), None) if folder else None


def _of_llama_cpp_python() -> Path | None:
    folder = _package("llama_cpp")
    place = folder / "lib" / _file_name() if folder else None
    return place if place is not None and place.is_file() else None


def _package(name: str) -> Path | None:
    """The folder of an installed package, which is not imported."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _file_name() -> str:
    return _FILE_NAMES.get(sys.platform, "libllama.so")
