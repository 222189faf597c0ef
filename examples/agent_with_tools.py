"""An agent with one tool whose arguments are all closed: after its free text, no token is written."""

from typing import Literal

from agentform import Agent, Limits, load_engine, tool


@tool
def set_light(room: Literal["kitchen", "bedroom", "office"], on: bool) -> str:
    """Switch the light in a room.

    Args:
        room: Where the light is.
        on: Whether it shall be on.
    """
    return f"The light in the {room} is {'on' if on else 'off'}."


def main() -> None:
    engine = load_engine("smollm2-135m")
    agent = Agent(engine, tools=[set_light], limits=Limits(steps=2, reasoning_tokens=32, answer_tokens=64))
    result = agent.run_sync("Please switch on the light in the office.")
    for call in result.calls:
        print(call.name, dict(call.arguments))
    print(result.output)
    print(result.usage)


if __name__ == "__main__":
    main()
