"""Extras are told by commands that work where they are told."""

from __future__ import annotations

from agentform._util import install
from agentform._util.install import install_line


def test_a_checkout_is_named_and_what_an_installed_wheel_lacks_is_named_by_package(monkeypatch, tmp_path):
    assert install_line("mcp").startswith("pip install -e ")
    assert install_line("mcp").rstrip("'").endswith("[mcp]")
    monkeypatch.setattr(install, "_ROOT", tmp_path)
    needed = ['a>=1; extra == "one"', "b; extra == 'two'", 'agentform[two]; extra == "one"', "c"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: needed)
    assert install_line("one") == "pip install 'a>=1' b"
