"""An agent of LangChain's on the demo model: its calls are valid, its second turn finds the first in the cache."""

from __future__ import annotations

from typing import Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware
from langchain_core.decisions import Choice, Noul
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agentform import Limits
from langchain_agentform import AgentformDecisionModel, ChatAgentform

pytestmark = pytest.mark.model


@tool
def set_light(room: Literal["kitchen", "office"], on: bool) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}."


async def test_an_agent_with_a_thread(engine):
    model = ChatAgentform(engine=engine, limits=Limits(reasoning_tokens=8, answer_tokens=12))
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="end")
    graph = create_agent(model, [set_light], middleware=[limit], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "lights"}, "recursion_limit": 8}
    asked = {"messages": [HumanMessage("Please switch on the light in the office.")]}
    parts = [part async for part in graph.astream(asked, thread, stream_mode="messages")]
    assert any(message.text for message, _ in parts)
    state = await graph.ainvoke({"messages": [HumanMessage("And in the kitchen?")]}, thread)
    said = [message for message in state["messages"] if isinstance(message, AIMessage) and message.usage_metadata]
    for call in (call for message in said for call in message.tool_calls):
        assert call["args"].keys() == {"room", "on"}
        assert (call["args"]["room"] in ("kitchen", "office"), type(call["args"]["on"])) == (True, bool)
    assert said[0].tool_calls
    assert all(message.invalid_tool_calls == [] for message in said)
    later = said[-1].usage_metadata
    assert later["input_token_details"]["cache_read"] > said[0].usage_metadata["input_tokens"]


async def test_decisions_are_made_without_a_token(engine):
    questions = {
        "urgent": Noul(instructions="Is it urgent?"),
        "team": Choice(instructions="Which team?", criteria={"billing": "Invoices.", "technical": "Faults."}),
    }
    model = AgentformDecisionModel(engine=engine)
    response = await model.ainvoke({"state": "My invoice is wrong!", "questions": questions})
    assert 0 < response.nouls["urgent"].noul < 1
    assert sum(response.choices["team"].probabilities.values()) == pytest.approx(1)
    assert response.usage["output_tokens"] == 0
    assert response.usage["input_tokens"] > 0
