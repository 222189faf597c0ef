"""`agentform mcp`: forms and decisions for clients that speak MCP."""

from __future__ import annotations

import pytest
from mcp import Client

from agentform.cli.mcp_server import forms_server
from agentform.testing import Fill, ScriptedEngine

SCHEMA = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"]}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_fill_and_decide_are_tools_and_errors_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTFORM_HOME", str(tmp_path))
    engine = ScriptedEngine([Fill("fine", {"mood": "good"}), Fill("weather", {"sunny": True})])
    async with Client(forms_server(engine)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["fill", "decide"]
        filled = await client.call_tool("fill", {"text": "fine", "schema": SCHEMA})
        assert filled.structured_content["value"] == {"mood": "good"}
        assert filled.structured_content["evidence"][0]["how"] == "scored"
        asked = {"sunny": {"type": "noul", "instructions": "Is it sunny?"}}
        decided = await client.call_tool("decide", {"text": "the weather", "questions": asked})
        assert not decided.is_error, decided.content
        assert decided.structured_content["sunny"]["value"] is True
        bad = await client.call_tool("decide", {"text": "fine", "questions": {}})
        assert bad.is_error
        assert "InvalidInput" in bad.content[0].text
