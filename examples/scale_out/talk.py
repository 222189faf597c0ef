"""Conversations at once on SGLang servers behind one address: `examples/scale_out/serve.sh` starts such servers.

python examples/scale_out/talk.py http://127.0.0.1:30000 [NUMBER]
"""

from __future__ import annotations

import sys
from typing import Literal

import anyio

from agentform import Agent, Conversation, Limits, load_engine, tool

MESSAGES = ("Please switch on the light in the office.", "Now switch it off again.")


@tool
def set_light(room: Literal["kitchen", "office"], on: bool) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}."


async def main(url: str, number: int) -> None:
    """Hold so many conversations, each under an id of its own."""
    engine = load_engine(url)
    agent = Agent(engine, tools=[set_light], limits=Limits(steps=2, reasoning_tokens=8, answer_tokens=16))

    async def talk(name: str) -> None:
        conversation = Conversation(id=name)
        for message in MESSAGES:
            result = await agent.run(message, conversation=conversation)
            calls = ", ".join(f"{call.name}({dict(call.arguments)})" for call in result.calls) or "no call"
            print(f"{name}: {calls}")

    async with anyio.create_task_group() as group:
        for at in range(number):
            group.start_soon(talk, f"home-{at}")
    seen = engine.statistics()
    print(f"{seen.requests} requests, {seen.hit_tokens:,} of {seen.lookup_tokens:,} prompt tokens cached")
    await engine.aclose()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4)
