"""Finds out where in a past message a template reads the model's thought."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentform.decoding.formats.probe import KEYS, THOUGHT, Probe, ProbeCall
from agentform.decoding.formats.with_thought import THINKING_PART, with_thought

__all__ = ["learn_thought_key"]

_CALL = ProbeCall(arguments={KEYS[0]: "zqvalue"})
_FILLED_IN = ("reasoning_content", "thinking")
"""Keys that renderers fill in from one another, as transformers does."""
_USUAL = (*_FILLED_IN, "reasoning")
_READ = re.compile(r"(?:\.|\[['\"]|\(['\"])(\w*(?:reason|think|thought)\w*)")
"""Words of a template that may be a key of a message."""
_SWITCHES = ("enable_thinking", "thinking", "preserve_thinking")
"""Without which some templates leave past thoughts out."""


class _UnderOneKey(Probe):
    """Gives a thought under one key alone."""

    def assistant(self, text: str, calls: Sequence[ProbeCall] = (), thought: str | None = None) -> dict[str, Any]:
        message = super().assistant(text, calls)
        blank = dict.fromkeys(_FILLED_IN, "")
        return message if thought is None else {**blank, **with_thought(self.rules.thought_key, message, thought)}


def learn_thought_key(probe: Probe) -> str | None:
    """The key under which most thoughts are shown, the first of those; `None` where none is."""
    alone = _UnderOneKey(probe.template, probe.rules, probe.with_tools)
    keys = dict.fromkeys((*_USUAL, *_READ.findall(probe.template.template_source), THINKING_PART))
    switched: Mapping[str, Any] = dict.fromkeys(_SWITCHES, True)
    for switches in ({}, switched):
        shown = {key: _num_shown(alone.under(thought_key=key), switches) for key in keys}
        best = max(shown, key=shown.__getitem__)
        if shown[best]:
            return best
    return None


def _num_shown(probe: Probe, switches: Mapping[str, Any]) -> int:
    """In how many of a few conversations the thought is shown, and not as data."""
    asked = [probe.user()]
    said = [*asked, probe.assistant("Zqsaid.", thought=THOUGHT)]
    conversations = [said, [*said, probe.user("Zqagain asks.")]]
    for arguments in ("object", "text"):
        under = probe.under(arguments=arguments)
        called = under.assistant("", [_CALL], THOUGHT)
        conversations += [[*asked, called], [*asked, called, under.result(_CALL, 0)]]
    texts = (_shown(probe, messages, switches) for messages in conversations)
    return sum(THOUGHT in text and "'thinking'" not in text and '"thinking"' not in text for text in texts)


def _shown(probe: Probe, messages: Sequence[Mapping[str, Any]], switches: Mapping[str, Any]) -> str:
    """The conversation as text; none where the template, a program of others, fails at a thought in such a place."""
    try:
        return probe.render(messages, arguments=switches) or ""
    except Exception:
        return ""
