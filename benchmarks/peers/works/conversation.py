"""(c) A conversation with tools: every turn a call, its result and a short answer, each peer going on from its own."""

from __future__ import annotations

from typing import Any

from agentform.messages import Message, ToolCall, ToolResult
from benchmarks.peers.bench import Bench, rotated
from benchmarks.peers.prompts import answer_task, call_task
from benchmarks.peers.validity import parsed

__all__ = ["TOOLS", "measure"]

_TURNS = 20
_ANSWER_TOKENS = 16
_ROOMS = ("kitchen", "hall", "bathroom", "office")


def _tool(name: str, description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "parameters": parameters}


TOOLS = (
    _tool(
        "set_light",
        "Switch a light on or off.",
        room={"enum": list(_ROOMS), "description": "Where the light is"},
        on={"type": "boolean", "description": "Whether it is to be on"},
        brightness={"type": "integer", "minimum": 0, "maximum": 100, "description": "In percent"},
    ),
    _tool(
        "remind",
        "Remind somebody of something.",
        who={"enum": ["me", "my family", "everyone"], "description": "Who is reminded"},
        text={"type": "string", "maxLength": 60, "description": "What the reminder says"},
    ),
    _tool("weather", "Tell the weather.", day={"enum": ["today", "tomorrow"], "description": "Of which day"}),
)
_RESULTS = {"set_light": "The light is set.", "remind": "The reminder is noted.", "weather": "Sunny, 21 degrees."}


def measure(bench: Bench) -> None:
    """Rows of work "conversation", cases "call" and "answer"; a round is a turn, and the peers take it in turns."""
    turns = 3 if bench.context.quick else _TURNS
    said: dict[str, list[Message]] = {name: [] for name in bench.names}
    for turn in range(turns):
        for name in rotated(bench.names, turn):
            _turn(bench, name, said[name], turn)


def _turn(bench: Bench, name: str, messages: list[Message], turn: int) -> None:
    """A peer that fails at a turn goes on without it."""
    kept = len(messages)
    messages.append(Message(role="user", content=_asked(turn)))
    call = call_task(bench.tokenizer, messages, TOOLS, conversation=name)
    written = bench.measure(name, call, work="conversation", case="call", turn=turn)
    made = parsed(written.text) if written is not None else None
    if written is None or not isinstance(made, dict) or made.get("name") not in _RESULTS:
        del messages[kept:]
        return
    messages += _called(made, turn)
    answer = answer_task(bench.tokenizer, messages, TOOLS, max_tokens=_ANSWER_TOKENS, conversation=name)
    answered = bench.measure(name, answer, work="conversation", case="answer", turn=turn)
    if answered is None:
        del messages[kept:]
        return
    messages.append(Message(role="assistant", content=answered.text.strip()))


def _called(made: dict[str, Any], turn: int) -> list[Message]:
    call = ToolCall(id=f"call_{turn}", name=made["name"], arguments=made.get("arguments", {}))
    content = _RESULTS[call.name]
    result = ToolResult(call_id=call.id, name=call.name, content=content)
    return [
        Message(role="assistant", calls=(call,)),
        Message(role="tool", content=content, result=result),
    ]


def _asked(turn: int) -> str:
    room, percent = _ROOMS[turn % len(_ROOMS)], 10 * (turn % 10 + 1)
    return (
        f"Please switch on the light in the {room}, at {percent} percent.",
        f"Please remind me of message number {turn} tomorrow.",
        f"Now switch off the light in the {room}, please.",
        "What will the weather be like tomorrow?",
    )[turn % 4]
