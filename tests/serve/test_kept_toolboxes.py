"""What is kept of past requests' tools is bounded by how large it is, and belongs to one client."""

from __future__ import annotations

from agentform.serve.kept_toolboxes import KeptToolboxes
from agentform.tools.toolset import Toolbox


def made_with(kept_characters: int) -> tuple[KeptToolboxes, list[str]]:
    made: list[str] = []

    def make(text: str) -> Toolbox:
        made.append(text)
        return Toolbox(())

    return KeptToolboxes(make, kept_characters=kept_characters), made


def test_the_same_tools_of_a_client_are_one_object():
    kept, made = made_with(1000)
    assert kept.of("tools", "a") is kept.of("tools", "a")
    assert made == ["tools"]


def test_another_client_with_the_same_tools_waits_as_if_they_were_new():
    kept, made = made_with(1000)
    assert kept.of("tools", "a") is not kept.of("tools", "b")
    assert made == ["tools", "tools"]


def test_large_tools_make_room_for_each_other():
    kept, made = made_with(1000)
    for text in ("x" * 600, "y" * 600, "x" * 600):
        kept.of(text, "a")
    assert len(made) == 3


def test_tools_larger_than_all_that_is_kept_are_served_and_drive_nothing_out():
    kept, made = made_with(1000)
    small = kept.of("small", "a")
    kept.of("x" * 2000, "a")
    assert kept.of("small", "a") is small
    assert made == ["small", "x" * 2000]
