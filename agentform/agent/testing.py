"""Moved: see `agentform.testing`."""

from __future__ import annotations

from agentform._util.moved import moved

__all__: list[str] = []

__getattr__ = moved(
    __name__,
    {
        "ByteTokenizer": "agentform.testing:ByteTokenizer",
        "Call": "agentform.testing:Call",
        "Fail": "agentform.testing:Fail",
        "Fill": "agentform.testing:Fill",
        "Say": "agentform.testing:Say",
        "ScriptedEngine": "agentform.testing:ScriptedEngine",
        "assert_calls": "agentform.testing:assert_calls",
        "assert_script_done": "agentform.testing:assert_script_done",
        "prompts": "agentform.testing:prompts",
        "scripted_call": "agentform.testing:scripted_call",
    },
)
