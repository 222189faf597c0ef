"""What a terminal shows of a turn: everything once, whatever its size; and where its lines come from."""

from __future__ import annotations

import io
import re
import stat

import anyio
import pytest
from rich.console import Console

from agentform.cli.chat.settings import ChatSettings
from agentform.cli.chat.view import TurnView
from agentform.errors import InvalidInput
from agentform.events import (
    AnswerDelta,
    ArgumentChosen,
    ArgumentDelta,
    CallReady,
    ChoiceMade,
    ReasoningDelta,
    ThoughtDelta,
    ToolFinished,
    TurnFinished,
)
from agentform.messages import Alternative, Evidence, ToolCall, ToolResult, Usage

LEAVES = [
    Evidence(
        pointer=f"/argument_number_{at}",
        value="a long value of some words " * 2,
        how="scored",
        probability=0.9,
        raw_probability=0.8,
        legal_mass=0.7,
        alternatives=(Alternative(value="another", probability=0.1),),
    )
    for at in range(6)
]
CALL = ToolCall(id="c", name="light", arguments={}, evidence=tuple(LEAVES))
CHOICE = Evidence(pointer="", value="light", how="scored", probability=0.9, legal_mass=0.5)
EVENTS = [
    ThoughtDelta(text="Is it dark? "),
    *(ReasoningDelta(text=f"I look at lamp {at}, which is far away. ") for at in range(8)),
    ChoiceMade(decision=CHOICE),
    *(ArgumentChosen(call_id="c", tool="light", evidence=leaf) for leaf in LEAVES),
    ArgumentDelta(call_id="c", tool="light", pointer="/note", text='"a note that is written ' * 5),
    TurnFinished(step=0, usage=Usage(miss="branched_before_snapshot"), total=Usage()),
    CallReady(call=CALL),
    ToolFinished(call=CALL, result=ToolResult(call_id="c", name="light", content="switched on " * 20)),
]


def shown(width: int, events=EVENTS, *, terminal: bool = True, height: int = 12, **options) -> list[str]:
    """What can be read on a terminal of this size in the end, what has scrolled off included."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=terminal, color_system=None)
    with TurnView(console, **options) as view:
        for event in events:
            view.show(event)
    return screen(console.file.getvalue(), height)


def screen(sent: str, height: int) -> list[str]:
    """The lines after what was sent: carriage returns, line feeds, and the controls that rich uses for live views."""
    lines, row = [""], 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", sent):
        if piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif re.fullmatch(r"\x1b\[\d*A", piece):
            row = max(0, len(lines) - height, row - int(piece[2:-1] or 1))
        elif not piece.startswith(("\x1b", "\r")):
            lines[row] += piece
    return lines


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("terminal", [True, False])
def test_every_argument_is_shown_once_and_nothing_is_wider_than_the_terminal(width, terminal):
    lines = shown(width, terminal=terminal)
    text = "\n".join(lines)
    for leaf in LEAVES:
        assert text.count(leaf.pointer) == 1, text
    for word in ("Is it dark?", "lamp 7", "→ call light", "switched on", "branched_before_snapshot"):
        assert word in text
    assert text.index("→ call") < text.index(LEAVES[0].pointer) < text.index("tokens:") < text.index("← switched")
    assert text.count("lamp 3") == text.count("→ call light") == 1
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("terminal", [True, False])
def test_calls_of_one_turn_are_shown_each_with_its_own_arguments(terminal):
    leaves = [Evidence(pointer="/room", value=room, how="scored", probability=0.9) for room in ("office", "kitchen")]
    events = []
    for at, leaf in enumerate(leaves):
        events += [ChoiceMade(decision=CHOICE), ArgumentChosen(call_id=str(at), tool="light", evidence=leaf)]
    events.append(TurnFinished(step=0, usage=Usage(), total=Usage()))
    events += [CallReady(call=ToolCall(id=str(i), name="light", arguments={}, evidence=(leaves[i],))) for i in (0, 1)]
    text = "\n".join(shown(80, events, terminal=terminal))
    assert text.count("/room") == text.count("→ call light") == 2
    assert text.index("office") < text.rindex("→ call light") < text.index("kitchen") < text.index("tokens:")


@pytest.mark.parametrize("terminal", [True, False])
def test_hidden_reasoning_is_not_shown_and_an_answer_is(terminal):
    text = "\n".join(shown(80, terminal=terminal, shows_reasoning=False))
    assert "→ call light" in text
    assert not any(word in text for word in ("dark", "lamp"))
    answer = [ThoughtDelta(text="dark?"), ReasoningDelta(text="It is "), AnswerDelta(text="on.")]
    text = "\n".join(shown(80, answer, terminal=terminal, shows_reasoning=False))
    assert "It is on." in text
    assert "dark" not in text


def test_effort_and_budget_of_reasoning_are_those_of_the_server():
    plain, high = ChatSettings(model="m"), ChatSettings(model="m", reasoning_effort="high")
    assert (plain.limits.reasoning_tokens, plain.reasoning.max_tokens, plain.reasoning.effort) == (256, 2048, None)
    assert (high.limits.reasoning_tokens, high.reasoning.max_tokens, high.reasoning.effort) == (1024, 8192, "high")
    bounded = ChatSettings(model="m", reasoning_effort="high", reasoning_tokens=40, max_tokens=9)
    assert (bounded.limits.reasoning_tokens, bounded.reasoning.max_tokens, bounded.limits.answer_tokens) == (40, 40, 9)


def test_lines_are_edited_and_kept_for_their_owner_alone(tmp_path):
    prompt_toolkit = pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from agentform.cli.chat.lines import EditedLines

    history = tmp_path / "home" / "chat_history"
    with create_pipe_input() as typed:
        lines = EditedLines(history=history, commands=["/help"], input=typed, output=DummyOutput())
        typed.send_text("helo\x1b[Dl\r")  # a key to the left, and the letter that was left out
        assert lines.read("> ") == "hello"
        typed.send_text("\x1b[A!\r")  # the line before, and more
        assert lines.read("> ") == "hello!"
        typed.send_text("a secret\r")

        async def asked() -> str | None:
            return lines.ask("light returns: ")

        assert anyio.run(asked) == "a secret"
        typed.send_text("\x03")
        with pytest.raises(KeyboardInterrupt):
            lines.read("> ")
        typed.send_text("\x04")
        assert lines.read("> ") is None
    assert "hello!" in history.read_text()
    assert "secret" not in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert prompt_toolkit


def test_sampling_without_a_temperature_is_refused():
    from agentform.cli.options import asked_sampling

    assert asked_sampling(temperature=0.5, top_k=3, seed=None).top_k == 3
    with pytest.raises(InvalidInput, match="--top-p, --seed have no effect without --temperature"):
        asked_sampling(top_p=0.5, seed=1)
    with pytest.raises(InvalidInput, match="--top-p must be above 0"):
        asked_sampling(temperature=1, top_p=0)
