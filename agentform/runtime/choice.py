"""Which engine runs a model on this machine, with which files, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentform._util.install import install_line
from agentform.errors import InvalidRequest, MissingDependency
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.machine import Machine, this_machine
from agentform.runtime.models.model_files import find_gguf
from agentform.runtime.models.resolve import catalogue_gguf, resolve_model

__all__ = ["EngineChoice", "EngineName", "choose_engine"]

EngineName = Literal["torch", "llama_cpp"]
_NAMES: tuple[EngineName, ...] = ("torch", "llama_cpp")
_ONLY_TORCH = frozenset({"dtype", "weights", "snapshots", "codec", "refresh_tokens", "keep_live_states"})
"""Settings that only the engine on torch has."""


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """An engine, what it loads, and why in one sentence."""

    engine: EngineName
    path: Path
    """A model folder for torch, a file for llama.cpp."""
    why: str


def choose_engine(
    name: str,
    *,
    asked: str | None = None,
    settings: Collection[str] = (),
    machine: Machine | None = None,
    progress: bool = True,
) -> EngineChoice:
    """Where the model is, fetched if need be, and what runs it best here.

    Args:
        name: A catalogue name, a file, a folder or a hub id.
        asked: The engine that was asked for, if any.
        settings: Names of the settings that were given.
        machine: By default this one.
        progress: Whether downloads draw a bar.

    Raises:
        InvalidRequest: there is no such engine, or it cannot run what `name` is.
        EngineError: what `resolve_model` and `find_gguf` raise.
    """
    if asked is not None and asked not in _NAMES:
        raise InvalidRequest(f"there is no engine {asked!r}; there are {' and '.join(_NAMES)}")
    if name in CATALOGUE:
        return _of_catalogue(name, asked, settings, machine or this_machine(), progress=progress)
    file = find_gguf(name)
    if file is not None:
        return _of_file(file, asked)
    if asked == "llama_cpp":
        raise InvalidRequest(f"{name} is no GGUF file, and llama.cpp runs nothing else; engine='torch' does")
    return EngineChoice(engine="torch", path=resolve_model(name, progress=progress), why=_folder_reason(machine))


def _of_file(file: Path, asked: str | None) -> EngineChoice:
    if asked == "torch":
        raise InvalidRequest(
            f"{file} is a GGUF file, which the engine on torch does not read as it is; leave engine= out, or give a "
            "folder with the model's safetensors"
        )
    return EngineChoice(engine="llama_cpp", path=file, why=f"{file.name} is a GGUF file, which llama.cpp runs as it is")


def _of_catalogue(
    name: str, asked: str | None, settings: Collection[str], machine: Machine, *, progress: bool
) -> EngineChoice:
    entry = CATALOGUE[name]
    if entry.engine == "llama_cpp":
        if asked == "torch":
            raise InvalidRequest(f"{name} comes as a GGUF file only, which llama.cpp runs; leave engine= out")
        file = catalogue_gguf(entry, progress=progress)
        return EngineChoice(
            engine="llama_cpp", path=file, why=f"{name} comes as a GGUF file, which llama.cpp runs as it is"
        )
    if asked == "llama_cpp":
        return EngineChoice(engine="llama_cpp", path=catalogue_gguf(entry, progress=progress), why="it was asked for")
    return _either(name, asked, settings, machine, progress=progress)


def _either(
    name: str, asked: str | None, settings: Collection[str], machine: Machine, *, progress: bool
) -> EngineChoice:
    """A model that both engines run: llama.cpp where torch would compute in float32."""
    entry = CATALOGUE[name]
    slow = not machine.has_bfloat16 and not machine.has_cuda
    if asked is None and slow and not _ONLY_TORCH & set(settings):
        if machine.has_llama_cpp:
            why = f"{_float32(machine)}; llama.cpp loads and writes faster, in a third of the memory"
            return EngineChoice(engine="llama_cpp", path=catalogue_gguf(entry, progress=progress), why=why)
        if not machine.has_torch:
            raise MissingDependency(f"no engine is installed here: {install_line('llama')}, or {install_line('torch')}")
    folder = resolve_model(name, progress=progress)
    return EngineChoice(engine="torch", path=folder, why="it was asked for" if asked else _folder_reason(machine))


def _folder_reason(machine: Machine | None) -> str:
    found = machine or this_machine()
    if found.has_cuda:
        return "torch computes in bfloat16 on the GPU"
    if found.has_bfloat16:
        return "torch computes in bfloat16 on this processor"
    return (
        f"{_float32(found)}; a GGUF file of the model would run several times faster, on llama.cpp (the extra [llama])"
    )


def _float32(machine: Machine) -> str:
    return f"this processor ({machine.processor}) has no bfloat16 arithmetic, and torch would compute in float32"
