"""What users call their GGUF files, and what each of those names means."""

from __future__ import annotations

import os

import pytest

from agentform.errors import ModelNotFound, WeightsCorrupt
from agentform.runtime.models.model_files import VARIABLE, _one_model, find_gguf, in_model_folders

PARTS = [f"big-0000{n}-of-00003.gguf" for n in (1, 2, 3)]


def put(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"GGUF")
    return folder


def test_a_file_is_itself(tmp_path):
    put(tmp_path, "a.gguf", "B.GGUF")
    assert find_gguf(str(tmp_path / "a.gguf")) == tmp_path / "a.gguf"
    assert find_gguf(str(tmp_path / "B.GGUF")) == tmp_path / "B.GGUF"


@pytest.mark.parametrize("named", [*PARTS, None])
def test_any_part_of_a_split_file_and_its_folder_mean_the_first(tmp_path, named):
    put(tmp_path, *PARTS)
    assert find_gguf(str(tmp_path / named if named else tmp_path)) == tmp_path / PARTS[0]


def test_missing_parts_are_named(tmp_path):
    put(tmp_path, PARTS[1])
    with pytest.raises(WeightsCorrupt, match=rf"{PARTS[0]}, {PARTS[2]}"):
        find_gguf(str(tmp_path))


def test_a_folder_with_one_file_is_that_file_and_projectors_are_none(tmp_path):
    put(tmp_path, "model.gguf", "mmproj-model.gguf", "README.md")
    assert find_gguf(str(tmp_path)) == tmp_path / "model.gguf"


def test_a_folder_with_several_asks_for_one(tmp_path):
    put(tmp_path, "a-Q4.gguf", "a-Q8.gguf")
    with pytest.raises(ModelNotFound, match=r"a-Q4\.gguf, a-Q8\.gguf"):
        find_gguf(str(tmp_path))


def test_a_folder_with_safetensors_is_a_model_folder(tmp_path):
    assert find_gguf(str(put(tmp_path, "model.safetensors", "a.gguf"))) is None
    assert find_gguf("org/name") is None
    assert find_gguf("smollm2-135m") is None


def test_the_variable_names_folders_and_files(tmp_path, monkeypatch):
    one, two = put(tmp_path / "one", "a.gguf"), put(tmp_path / "two", "b.gguf")
    monkeypatch.setenv(VARIABLE, os.pathsep.join([str(one), str(two / "b.gguf")]))
    assert find_gguf("a.gguf") == in_model_folders("a.gguf") == one / "a.gguf"
    assert find_gguf("b.gguf") == two / "b.gguf"
    with pytest.raises(ModelNotFound, match="nor in AGENTFORM_MODELS"):
        find_gguf("c.gguf")


def test_without_the_variable_it_is_told_of(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ModelNotFound, match="AGENTFORM_MODELS"):
        find_gguf("no/such/file.gguf")


def test_a_pattern_must_mean_one_model():
    files = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", *PARTS]
    assert _one_model("o/n", "*big*", PARTS, files) == PARTS
    with pytest.raises(ModelNotFound, match="several files fit"):
        _one_model("o/n", "*m-*", files[:2], files)
    with pytest.raises(ModelNotFound, match=r"no file fits .*m-Q4_K_M"):
        _one_model("o/n", "*f16*", [], files)
