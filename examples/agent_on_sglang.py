"""The agent of agent_with_tools.py, on SGLang: nothing changes but the name that the engine is loaded by."""

import argparse
from typing import Literal

import agentform
from agentform import Agent, Limits, tool


@tool
def set_light(room: Literal["kitchen", "bedroom", "office"], on: bool) -> str:
    """Switch the light in a room.

    Args:
        room: Where the light is.
        on: Whether it shall be on.
    """
    return f"The light in the {room} is {'on' if on else 'off'}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name, folder or hub id")
    name = parser.parse_args().model
    engine = agentform.load_engine(f"sglang:{name}")  # SGLang's own arguments may follow, such as tp_size=2
    agent = Agent(engine, tools=[set_light], limits=Limits(steps=2, reasoning_tokens=8, answer_tokens=32))
    for text in ("Please switch on the light in the office.", "And now the one in the kitchen, please."):
        result = agent.run_sync(text)
        for call in result.calls:
            print(call.name, dict(call.arguments))
        print(result.output)
        print(f"{result.usage.cached_tokens} of {result.usage.prompt_tokens} prompt tokens were in SGLang's cache")


if __name__ == "__main__":
    main()
