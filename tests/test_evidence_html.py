"""What notebooks show of forms, decisions and runs."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Literal

import pytest
from pydantic import BaseModel

from agentform import Agent, YesNo, decide_sync, fill_sync, tool
from agentform.testing import Call, Fill, Say, ScriptedEngine

HOSTILE = '<script>alert(1)</script>\u202e" onload=x'


class Note(BaseModel):
    mood: Literal["good", "bad"]
    why: str


@tool
def light(room: Literal["kitchen", "office"], note: str) -> str:
    """Switch on the light in a room."""
    return "on"


class Tags(HTMLParser):
    """The elements, which are all closed in their order but for those that hold nothing."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened, self.seen, self.attributes = [], set(), set()
        self.feed(text)
        assert self.opened == []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "br":
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag


def filled():
    return fill_sync(ScriptedEngine([Fill("a", {"mood": "good", "why": HOSTILE})]), "a", Note)


def decided():
    return decide_sync(ScriptedEngine([Fill("a", {HOSTILE: True})]), "a", {HOSTILE: YesNo("Late?")})


def ran():
    call = Call("light", {"room": "office", "note": HOSTILE}, text="It is dark.")
    return Agent(ScriptedEngine([call, Say(HOSTILE)]), tools=[light]).run_sync("Light!")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (filled, ["/mood", "good", "90.0%", "generated", "prompt tokens from the cache"]),
        (decided, ["true", "false", "%", "legal mass"]),
        (ran, ["light", "/room", "office", "kitchen", "legal mass", "before the prior"]),
    ],
)
def test_results_show_how_they_were_decided_and_none_of_their_text_as_markup(make, words):
    text = make()._repr_html_()
    tags = Tags(text)
    assert tags.seen <= {"style", "div", "p", "b", "table", "caption", "thead", "tbody", "tr", "th", "td", "code"} | {
        "meter",
        "br",
    }
    assert tags.attributes <= {"class", "style", "scope", "min", "max", "value", "aria-label"}
    assert [word for word in words if word not in text] == []
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text
    assert "://" not in text
