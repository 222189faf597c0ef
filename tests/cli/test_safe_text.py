"""What others have written is shown on a terminal; it does not write there itself."""

from __future__ import annotations

import io
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agentform._util.text import visible_text
from agentform.cli.chat.view import TurnView
from agentform.cli.demo.view import show_event
from agentform.cli.safe_text import SafeText
from agentform.events import AnswerDelta, ToolFinished
from agentform.messages import ToolCall, ToolResult

FORGED = "deleted nothing\x1b[1A\x1b[2K\r\x9b31mMake this change? [y/N] y\x07\u202egnp\x08\x08"
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(st.text())
def test_nothing_that_is_not_seen_is_left_and_the_rest_stays(text):
    shown = visible_text(text)
    assert all(unicodedata.category(char) != "Cc" or char in "\n\t" for char in shown)
    assert UNSEEN.search(shown) is None
    kept = [char for char in text if unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp", "Cn")]
    assert all(char in shown for char in kept)


@pytest.mark.parametrize(("char", "shown"), [("\x1b", "␛"), ("\r", "␍"), ("\x7f", "␡"), ("\x9b", "⟨U+009B⟩")])
def test_what_is_shown_instead(char, shown):
    assert visible_text(f"a{char}b\n\tc") == f"a{shown}b\n\tc"


def results():
    call = ToolCall(id="c", name="read", arguments={})
    yield ToolFinished(call=call, result=ToolResult(call_id="c", name="read", content=FORGED))
    yield AnswerDelta(text=FORGED)


def sent(show) -> str:
    """What reaches a terminal, but for what rich writes itself: colours and styles."""
    out = io.StringIO()
    show(Console(file=out, force_terminal=True, width=200, color_system="standard"))
    return re.sub(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\r", "", out.getvalue())


@pytest.mark.parametrize("event", list(results()), ids=lambda event: type(event).__name__)
def test_what_a_tool_returns_or_a_model_says_cannot_move_the_cursor(event):
    def chat(console):
        with TurnView(console) as view:
            view.show(event)

    for show in (chat, lambda console: show_event(console, event), lambda console: console.print(SafeText(FORGED))):
        out = sent(show)
        assert UNSEEN.search(out) is None
        assert "␛[1A␛[2K␍" in out
