"""What the documentation and the examples show of SGLang, on the engine that the tests share."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import agentform
from tests.support.doc_blocks import blocks_of

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.model


@pytest.fixture(autouse=True)
def _shared_engine(demo_on_sglang, monkeypatch):
    def load_engine(name, **server_args):
        assert name == "sglang:smollm2-135m"
        return demo_on_sglang

    monkeypatch.setattr(agentform, "load_engine", load_engine)


def test_the_example_reports_cached_tokens(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["agent_on_sglang.py"])
    runpy.run_path(str(ROOT / "examples" / "agent_on_sglang.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert out.count("prompt tokens were in SGLang's cache") == 2


def test_the_python_blocks_of_the_page_run():
    blocks = [block for block in blocks_of(ROOT / "docs" / "sglang.md") if block.language == "python"]
    assert blocks
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block.text, "sglang.md", "exec", dont_inherit=True), namespace)
