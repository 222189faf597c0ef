"""What pyproject.toml names is there: entry points, files of the wheel, patterns of the tools."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
POINTS = {
    **PROJECT["project"]["scripts"],
    **{name: at for group in PROJECT["project"]["entry-points"].values() for name, at in group.items()},
}


@pytest.mark.parametrize("name", POINTS)
def test_an_entry_point_can_be_called(name):
    module, _, attribute = POINTS[name].partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_sglang_finds_the_plugin_under_the_name_that_it_asks_for():
    assert PROJECT["project"]["entry-points"]["sglang.srt.plugins"] == {
        "agentform_snapshots": "agentform.runtime.sglang.plugin.plugin:register"
    }


def test_entry_points_of_an_installation_of_0_1_still_work():
    for module, name in (("agentform.cli", "main"), ("agentform.runtime.sglang.plugin", "register")):
        assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("source", PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"])
def test_a_file_that_the_wheel_takes_along_is_there_and_lies_in_a_package(source):
    target = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"][source]
    assert (ROOT / source).is_file()
    assert (ROOT / target).parent.joinpath("__init__.py").is_file()


@pytest.mark.parametrize("place", PROJECT["tool"]["pyright"]["strict"] + PROJECT["tool"]["pyright"]["include"])
def test_what_the_type_checker_is_told_of_is_there(place):
    assert (ROOT / place).exists()


@pytest.mark.parametrize("pattern", PROJECT["tool"]["ruff"]["lint"]["per-file-ignores"])
def test_a_pattern_of_the_linter_matches_something(pattern):
    assert any(True for _ in ROOT.glob(pattern))
