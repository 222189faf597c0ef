from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from agentform._util.paths import cache_home, downloads_folder, models_folder
from agentform.runtime.models.catalogue import CATALOGUE


def test_every_entry_is_filed_under_its_name_and_fully_pinned():
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert len(entry.gguf_sha256) == 64
        assert entry.parts
        assert len({part.wheel_sha256 for part in entry.parts}) == len(entry.parts)
        for part in entry.parts:
            assert len(part.wheel_sha256) == 64
            assert part.requirement == f"{part.package}=={part.version}"
            assert part.wheel.startswith(part.member.partition("/")[0])


def test_the_catalogue_cannot_be_changed():
    with pytest.raises(TypeError):
        CATALOGUE["other"] = CATALOGUE["smollm2-135m"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        CATALOGUE["smollm2-135m"].license = "none"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"AGENTFORM_HOME": "/a", "XDG_CACHE_HOME": "/x"}, Path("/a")),
        ({"AGENTFORM_HOME": "", "XDG_CACHE_HOME": "/x"}, Path("/x/agentform")),
        ({}, Path.home() / ".cache" / "agentform"),
    ],
)
def test_the_cache_folder_comes_from_the_first_variable_that_is_set(environment, expected):
    assert cache_home(environment) == expected


def test_models_and_downloads_lie_below_the_given_home(tmp_path):
    assert models_folder(tmp_path).parent == downloads_folder(tmp_path).parent == tmp_path


def test_the_variable_is_read_at_each_call(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTFORM_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "models"
