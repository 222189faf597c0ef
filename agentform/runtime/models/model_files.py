"""GGUF files as users have them: a path, a folder, the first of several parts, or a file of a Hugging Face repository.

::

    ./model.gguf                            a file; of a split one any part
    ./folder                                a folder with one GGUF file, whole or split
    org/name:Q4_K_M, org/name:*q8_0.gguf    the file of a repository on the hub that fits
    model.gguf                              looked for in the folders that AGENTFORM_MODELS names
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from pathlib import Path

from agentform.errors import ModelNotFound, WeightsCorrupt, WeightsUnavailable
from agentform.runtime.models.extras import fetch_extra

__all__ = ["VARIABLE", "find_gguf", "in_model_folders"]

VARIABLE = "AGENTFORM_MODELS"
_SUFFIX = ".gguf"
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_HUB_FILE = re.compile(r"(?P<repository>[\w][\w.-]*/[\w][\w.-]*):(?P<pattern>[^:]+)")
_SHOWN = 8


def find_gguf(name: str) -> Path | None:
    """The file that `name` means, of a split one the first; `None` where it means no GGUF file.

    Raises:
        ModelNotFound: a file that is not there, or several that it may mean.
        WeightsCorrupt: parts of a split file are missing.
        WeightsUnavailable: the hub does not give it.
        MissingDependency: the hub's client is not installed.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return _in_folder(path)
    if path.is_file() and name.lower().endswith(_SUFFIX):
        return _first_part(path)
    if match := _HUB_FILE.fullmatch(name):
        return _first_part(_from_hub(match["repository"], match["pattern"]))
    if name.lower().endswith(_SUFFIX):
        return _first_part(_in_model_folders_or_fail(name))
    return None


def in_model_folders(name: str) -> Path | None:
    """A file of this name in a folder that AGENTFORM_MODELS names, several apart by the system's path separator."""
    folders = [Path(each).expanduser() for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]
    places = (folder / name if folder.is_dir() else folder for folder in folders)
    return next((place for place in places if place.is_file() and place.name == Path(name).name), None)


def _in_model_folders_or_fail(name: str) -> Path:
    found = in_model_folders(name)
    if found is None:
        where = os.environ.get(VARIABLE)
        told = f"nor in {VARIABLE} ({where})" if where else f"and {VARIABLE}, which may name folders, is not set"
        raise ModelNotFound(f"there is no file {name}, {told}")
    return found


def _in_folder(folder: Path) -> Path | None:
    """The folder's only GGUF file; `None` if it holds none, or a model in another format as well."""
    if any(folder.glob("*.safetensors")):
        return None
    files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(_SUFFIX) and _may_be_model(path))
    firsts = [path for path in files if (match := _PART.fullmatch(path.name)) is None or int(match["number"]) == 1]
    if len(firsts) > 1:
        raise ModelNotFound(f"{folder} holds several GGUF files; name one: {_listed([path.name for path in firsts])}")
    return _first_part((firsts or files)[0]) if files else None


def _may_be_model(path: Path) -> bool:
    """Not the projector of images that lies beside some models."""
    return "mmproj" not in path.name.lower()


def _first_part(path: Path) -> Path:
    """The first of the parts of a split file, all of which must be there."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return path
    count = int(match["count"])
    names = [f"{match['stem']}-{number:05}-of-{match['count']}.gguf" for number in range(1, count + 1)]
    missing = [name for name in names if not (path.parent / name).is_file()]
    if missing:
        raise WeightsCorrupt(
            f"{path} is one of {count} parts, of which are missing in {path.parent}: {_listed(missing)}"
        )
    return path.parent / names[0]


def _from_hub(repository: str, pattern: str) -> Path:
    """Fetch what fits; a pattern without wildcards is part of a file's name."""
    with fetch_extra():
        from huggingface_hub import HfApi, snapshot_download
    wanted = pattern if any(mark in pattern for mark in "*?[") else f"*{pattern}*"
    try:
        files = [name for name in HfApi().list_repo_files(repository) if name.lower().endswith(_SUFFIX)]
        fitting = _one_model(
            repository, pattern, [f for f in files if fnmatch.fnmatch(f.lower(), wanted.lower())], files
        )
        return Path(snapshot_download(repository, allow_patterns=fitting)) / fitting[0]
    except ModelNotFound:
        raise
    except Exception as error:  # the hub client lets its HTTP library's own errors through
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise WeightsUnavailable(
            f"{repository} could not be fetched from the Hugging Face hub: {reason}\n"
            f"With network access run\n    hf download {repository} --include '{wanted}'\nor give the path of the file."
        ) from error


def _one_model(repository: str, pattern: str, fitting: Sequence[str], files: Sequence[str]) -> list[str]:
    """The fitting files, if they are one model: one file, or the parts of one."""
    stems = {match["stem"] if (match := _PART.fullmatch(name)) else name for name in fitting}
    if len(stems) != 1:
        what = "several files fit" if stems else "no file fits"
        raise ModelNotFound(f"{what} {pattern!r} in {repository}: {_listed(fitting or files)}")
    return sorted(fitting)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "no GGUF files") + more
