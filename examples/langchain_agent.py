"""An agent of LangChain's on a model of your own: calls are chosen and checked, a thread stays warm in the cache."""

from typing import Literal

from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agentform import Limits
from langchain_agentform import ChatAgentform


@tool
def set_light(room: Literal["kitchen", "bedroom", "office"], on: bool) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}."


def main() -> None:
    model = ChatAgentform(model="smollm2-135m", limits=Limits(reasoning_tokens=32, answer_tokens=32))
    # A model of this size does not know when to stop calling.
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="end")
    agent = create_agent(model, [set_light], middleware=[limit], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "lights"}}
    for said in ("Can you turn on the light in the office?", "And in the kitchen."):
        state = agent.invoke({"messages": [("user", said)]}, thread)
    for message in state["messages"]:
        calls = [call["args"] for call in message.tool_calls] if isinstance(message, AIMessage) else ""
        print(f"{message.type}: {message.text} {calls or ''}")
        if isinstance(message, AIMessage) and message.usage_metadata:
            print(f"  {message.usage_metadata}")


if __name__ == "__main__":
    main()
