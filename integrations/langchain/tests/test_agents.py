"""`langchain.agents.create_agent` and LangGraph on the chat model."""

from __future__ import annotations

from typing import Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware, ModelRefusalMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.exceptions import ModelRefusalError
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic import BaseModel

from agentform import Limits
from agentform.runtime.engine import GenerateRequest
from agentform.testing import ByteTokenizer, Call, Fill, Say, ScriptedEngine
from langchain_agentform import ChatAgentform

RAN: list[tuple[str, bool]] = []


@tool
def light(room: Literal["office", "hall"], on: bool) -> str:
    """Switch a light."""
    RAN.append((room, on))
    return f"The {room} is lit."


class Report(BaseModel):
    """What was done."""

    room: Literal["office", "hall"]
    done: bool


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


SWITCH = Call("light", {"room": "hall", "on": True}, text="I do it.")
ASKED = {"messages": [HumanMessage("The hall is dark.")]}
THREAD = {"configurable": {"thread_id": "t1"}}


def agent(*script, model=None, native=False, **options):
    engine = ScriptedEngine(script, tokenizer=ByteTokenizer(tool_template=native))
    chat = ChatAgentform(engine=engine, **model or {})
    return create_agent(chat, [light], **options), engine


def roles(state):
    return [message.type for message in state["messages"]]


@pytest.mark.parametrize("native", [False, True])
async def test_it_calls_sees_the_result_and_answers(native):
    graph, engine = agent(SWITCH, Say("Done."), native=native, system_prompt="Be brief.")
    state = await graph.ainvoke(ASKED)
    assert roles(state) == ["human", "ai", "tool", "ai"]
    assert (state["messages"][-1].content, RAN) == ("Done.", [("hall", True)])
    prompt = engine.tokenizer.decode(engine.requests[-1].prompt_ids)
    assert "Be brief." in prompt
    assert "The hall is lit." in prompt


def test_calls_of_one_message_run_together():
    both = Call("light", {"room": "hall", "on": True}, also=(Call("light", {"room": "office", "on": False}),))
    graph, _ = agent(both, Say("Done."), model={"limits": Limits(parallel_calls=4)})
    state = graph.invoke(ASKED)
    assert roles(state) == ["human", "ai", "tool", "tool", "ai"]
    assert sorted(RAN) == [("hall", True), ("office", False)]


class Watching(AgentMiddleware):
    def __init__(self):
        super().__init__()
        self.seen = []

    def before_model(self, state, runtime):
        self.seen.append(("before", len(state["messages"])))

    def after_model(self, state, runtime):
        self.seen.append(("after", len(state["messages"][-1].tool_calls)))

    def wrap_tool_call(self, request, handler):
        self.seen.append(("tool", dict(request.tool_call["args"])))
        if request.tool_call["args"]["room"] == "office":
            return ToolMessage("not the office", tool_call_id=request.tool_call["id"], status="error")
        return handler(request)


def test_middleware_sees_and_changes_what_happens():
    office = Call("light", {"room": "office", "on": True})
    watching = Watching()
    graph, engine = agent(office, SWITCH, Say("Done."), middleware=[watching])
    graph.invoke(ASKED)
    assert watching.seen == [
        ("before", 1),
        ("after", 1),
        ("tool", {"room": "office", "on": True}),
        ("before", 3),
        ("after", 1),
        ("tool", {"room": "hall", "on": True}),
        ("before", 5),
        ("after", 0),
    ]
    assert RAN == [("hall", True)]
    assert "Error: not the office" in engine.tokenizer.decode(engine.requests[-1].prompt_ids)


def test_another_model_takes_over_for_one_that_fails():
    other = ChatAgentform(engine=ScriptedEngine([Say("Here.")]))
    graph, _ = agent(model={"limits": Limits()}, middleware=[ModelFallbackMiddleware(other)])
    assert graph.invoke(ASKED)["messages"][-1].content == "Here."


def test_abstaining_is_a_refusal_that_middleware_knows():
    graph, _ = agent(SWITCH, model={"limits": Limits(min_probability=0.99)}, middleware=[ModelRefusalMiddleware()])
    with pytest.raises(ModelRefusalError):
        graph.invoke(ASKED)


def test_a_broken_call_does_not_run():
    @tool
    def note(text: str) -> str:
        """Keep a note."""
        raise AssertionError("it is not complete")

    engine = ScriptedEngine([Call("note", {"text": "far too long"})])
    graph = create_agent(ChatAgentform(engine=engine, limits=Limits(argument_tokens=4)), [note])
    state = graph.invoke(ASKED)
    assert roles(state) == ["human", "ai"]
    assert state["messages"][-1].invalid_tool_calls


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_thread_goes_on_where_it_stopped(kind, tmp_path):
    script = [SWITCH, Say("Done."), Say("You are welcome.")]
    if kind == "memory":
        graph, engine = agent(*script, checkpointer=InMemorySaver())
        await graph.ainvoke(ASKED, THREAD)
        state = await graph.ainvoke({"messages": [HumanMessage("Thanks.")]}, THREAD)
    else:
        engine = ScriptedEngine(script)
        for asked in (ASKED, {"messages": [HumanMessage("Thanks.")]}):  # each time from the file
            async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
                state = await create_agent(ChatAgentform(engine=engine), [light], checkpointer=saver).ainvoke(
                    asked, THREAD
                )
    assert roles(state) == ["human", "ai", "tool", "ai", "human", "ai"]
    assert threads(engine) == {"t1"}
    spoken = [request.prompt_ids for request in engine.requests if isinstance(request, GenerateRequest)]
    assert all(
        prompt[: len(spoken[0])] == spoken[0] for prompt in spoken
    )  # what is cached is where the next turn begins


def threads(engine):
    """Conversations of the requests, but for label priors, which are measured in content-free prompts aside."""
    hello = ASKED["messages"][0].text
    return {r.conversation for r in engine.requests if hello in engine.tokenizer.decode(r.prompt_ids)}


def test_sync_threads_too(tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph, engine = agent(SWITCH, Say("Done."), checkpointer=saver)
        graph.invoke(ASKED, THREAD)
    assert threads(engine) == {"t1"}


@pytest.mark.parametrize("is_async", [False, True])
async def test_messages_stream_as_they_come(is_async):
    graph, engine = agent(SWITCH, Say("All is done."), checkpointer=InMemorySaver())
    if is_async:
        parts = [part async for part in graph.astream(ASKED, THREAD, stream_mode=["messages", "updates"])]
    else:
        parts = list(graph.stream(ASKED, THREAD, stream_mode=["messages", "updates"]))
    chunks = [message for mode, part in parts if mode == "messages" for message in part[:1]]
    said = [chunk.text for chunk in chunks if isinstance(chunk, AIMessageChunk)]
    assert "".join(said) == "I do it.All is done."
    assert len([text for text in said if text]) == 6
    assert any(isinstance(chunk, AIMessageChunk) and chunk.tool_call_chunks for chunk in chunks)
    updates = [next(iter(part)) for mode, part in parts if mode == "updates"]
    assert updates == ["model", "tools", "model"]
    assert threads(engine) == {"t1"}


REPORT = {"room": "hall", "done": True}


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_last_answer_is_a_call_to_the_schema(is_async):
    graph, _ = agent(SWITCH, Call("Report", REPORT), response_format=ToolStrategy(Report))
    state = await graph.ainvoke(ASKED) if is_async else graph.invoke(ASKED)
    assert state["structured_response"] == Report(room="hall", done=True)


@pytest.mark.parametrize("response_format", [Report, ProviderStrategy(Report)])
async def test_the_last_answer_is_the_schema_filled(response_format):
    graph, _ = agent(SWITCH, Say("All is done."), Fill("The hall is lit.", REPORT), response_format=response_format)
    state = await graph.ainvoke(ASKED)
    assert roles(state) == ["human", "ai", "tool", "ai"]
    assert state["structured_response"] == Report(room="hall", done=True)
