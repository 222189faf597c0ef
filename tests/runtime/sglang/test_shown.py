"""The Python of the documentation that needs a server."""

from __future__ import annotations

from pathlib import Path

from agentform.runtime.sglang.client.server import SGLangServer
from tests.support.doc_blocks import blocks_of

PAGE = Path(__file__).parents[3] / "docs" / "scale_out.md"
ADDRESS = "http://localhost:30000"


def test_the_blocks_of_the_page_run(listening, capsys):
    blocks = [block for block in blocks_of(PAGE) if block.language == "python" and ADDRESS in block.text]
    assert blocks
    for block in blocks:
        namespace: dict[str, object] = {"__name__": "__main__"}
        exec(compile(block.text.replace(ADDRESS, listening.url), str(PAGE), "exec", dont_inherit=True), namespace)
        assert isinstance(namespace["engine"], SGLangServer)
    assert "prompt tokens were cached at the server" in capsys.readouterr().out
