"""The chat model on scripted engines: what it says, what it costs, what it asks of the engine, how it fails."""

from __future__ import annotations

import asyncio
import copy

import pytest
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelTimeoutError,
)
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableBinding
from langchain_core.tools import tool

from agentform import Limits, Reasoning, Usage
from agentform.errors import (
    CannotScore,
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    EngineUnauthorized,
    EngineUnavailable,
    InvalidRequest,
)
from agentform.runtime.engine import GenerateRequest
from agentform.testing import Call, Fail, Say, ScriptedEngine
from langchain_agentform import ChatAgentform
from langchain_agentform.usage import usage_metadata


@tool
def light(room: str, on: bool) -> str:
    """Switch a light."""
    return room


@tool
def note(text: str) -> str:
    """Keep a note."""
    return text


SWITCH = Call("light", {"room": "office", "on": True}, text="I do it.")
ARGS = {"room": "office", "on": True}


def scripted(*script, **options):
    engine = ScriptedEngine(script)
    return ChatAgentform(engine=engine, **options), engine


def generated(engine):
    return [request for request in engine.requests if isinstance(request, GenerateRequest)]


def whole(chunks):
    first, *rest = chunks
    return sum(rest, first)


async def collected(stream):
    return [item async for item in stream]


async def ask(model, prompt, how):
    """The model's message in each of the four ways to ask for it."""
    if how == "invoke":
        return await asyncio.to_thread(model.invoke, prompt)
    if how == "stream":
        return whole(await asyncio.to_thread(lambda: list(model.stream(prompt))))
    return await model.ainvoke(prompt) if how == "ainvoke" else whole(await collected(model.astream(prompt)))


every_way = pytest.mark.parametrize("how", ["invoke", "stream", "ainvoke", "astream"])


@every_way
async def test_an_answer(how):
    model, engine = scripted(Say("Hello there."))
    message = await ask(model, "Hi", how)
    assert message.content == "Hello there."
    assert message.response_metadata == {
        "model_name": "scripted",
        "model_provider": "agentform",
        "finish_reason": "stop",
    }
    num_prompt = len(engine.requests[0].prompt_ids)
    assert message.usage_metadata == {
        "input_tokens": num_prompt,
        "output_tokens": 13,
        "total_tokens": num_prompt + 13,
        "input_token_details": {"cache_read": 0},
        "output_token_details": {"reasoning": 0},
    }


@every_way
async def test_a_call(how):
    model, engine = scripted(SWITCH)
    message = await ask(model.bind_tools([light, note]), "It is dark.", how)
    assert message.content == "I do it."
    [call] = message.tool_calls
    assert (call["name"], call["args"], message.invalid_tool_calls) == ("light", ARGS, [])
    assert message.response_metadata["finish_reason"] == "tool_calls"
    assert [(e["pointer"], e["how"]) for e in message.response_metadata["evidence"]] == [
        ("/room", "generated"),
        ("/on", "scored"),
    ]
    usage = message.usage_metadata
    assert usage["input_tokens"] == len(engine.requests[0].prompt_ids)  # once, though every request reads it
    assert usage["output_token_details"]["reasoning"] == len("I do it.") + 1


@every_way
async def test_several_calls_in_one_message(how):
    more = Call("note", {"text": "lit"})
    model, _ = scripted(Call("light", ARGS, text="Both.", also=(more,)))
    message = await ask(model.bind_tools([light, note], parallel_tool_calls=True), "Do both.", how)
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("light", ARGS), ("note", {"text": "lit"})]
    assert len({call["id"] for call in message.tool_calls}) == 2


async def test_one_call_in_one_message_unless_more_are_wanted():
    model, _ = scripted(Call("light", ARGS, also=(Call("note", {"text": "lit"}),)))
    assert len(model.bind_tools([light, note]).invoke("Do both.").tool_calls) == 1


@pytest.mark.parametrize("version", ["v0", "v1"])
async def test_what_streams(version):
    model, _ = scripted(SWITCH, output_version=version)
    chunks = list(model.bind_tools([light]).stream("It is dark."))
    assert "".join(chunk.text for chunk in chunks) == "I do it."
    assert [chunk.chunk_position for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].chunk_position == "last"
    assert [bool(chunk.usage_metadata) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    parts = [part for chunk in chunks for part in chunk.tool_call_chunks]
    assert (parts[0]["name"], parts[0]["id"] is not None, parts[0]["args"]) == ("light", True, "")
    assert "".join(part["args"] for part in parts) == '{"room": "office", "on": true}'
    blocks = whole(chunks).content_blocks
    assert [block["type"] for block in blocks] == ["text", "tool_call"]
    assert blocks[1]["args"] == ARGS


@every_way
async def test_a_call_that_was_cut_off_is_no_call(how):
    """The lenient reading of partial JSON would make a call of it."""
    model, _ = scripted(Call("note", {"text": "much too long"}, text="Hm."), limits=Limits(argument_tokens=6))
    message = await ask(model.bind_tools([note]), "Note it.", how)
    assert message.tool_calls == []
    [call] = message.invalid_tool_calls
    assert call["name"] == "note"
    assert "much" in call["args"]
    assert message.response_metadata["finish_reason"] == "length"
    assert "'/text' was not complete after 6 tokens" in message.response_metadata["error"]
    assert message.content == "Hm."
    assert message.usage_metadata["output_tokens"] > 0


@every_way
async def test_a_call_that_no_repair_makes_valid_is_an_invalid_one(how):
    @tool
    def book(day: str) -> str:
        """Book a day."""
        return day

    schema = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}, "required": ["day"]}
    described = {"name": "book", "description": "", "parameters": schema}
    wrong = Call("book", {"day": "2024-02-30"}, repairs=[{"day": "2024-02-31"}])
    model, _ = scripted(wrong, limits=Limits(repairs=1))
    message = await ask(model.bind_tools([described]), "Book it.", how)
    assert (message.tool_calls, message.invalid_tool_calls[0]["name"]) == ([], "book")
    assert "2024-02-31" in message.invalid_tool_calls[0]["args"]
    assert "no valid arguments in 2 attempts" in message.response_metadata["error"]


@every_way
async def test_abstaining_is_a_refusal(how):
    engine = ScriptedEngine([SWITCH], legal_mass=0.1)
    model = ChatAgentform(engine=engine, limits=Limits(min_legal_mass=0.5)).bind_tools([light])
    message = await ask(model, "It is dark.", how)
    [refusal] = [block for block in message.content_blocks if block["type"] == "refusal"]
    assert "legal mass" in refusal["refusal"]
    assert (message.tool_calls, message.response_metadata["finish_reason"]) == ([], "refusal")


def test_tool_choice_forces_names_and_forbids():
    said = Say("I would rather not.")
    model, _ = scripted(Call("note", {"text": "x"}, text="No."), Call("note", {"text": "x"}), said)
    tools = [light, note]
    assert model.bind_tools(tools, tool_choice="any").invoke("Hi").tool_calls
    assert model.bind_tools(tools, tool_choice="note").invoke("Hi").tool_calls[0]["name"] == "note"
    assert model.bind_tools(tools, tool_choice="none").invoke("Hi").tool_calls == []


def test_of_allowed_tools_alone_one_is_called():
    model, _ = scripted(Call("note", {"text": "x"}, text="No."))
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "note"}}]}
    said = model.bind_tools([light, note], tool_choice={"type": "allowed_tools", "allowed_tools": allowed}).invoke("Hi")
    assert [call["name"] for call in said.tool_calls] == ["note"]


def test_bound_tools_can_be_bound_again():
    model, _ = scripted()
    tools = [light, note]
    assert isinstance(model.bind_tools(tools), RunnableBinding)


def test_plain_definitions_may_be_bound_as_well():
    model, _ = scripted(SWITCH)
    plain = [dict(definition) for definition in model.bind_tools([light]).kwargs["tools"]]
    assert model.bind(tools=plain).invoke("It is dark.").tool_calls[0]["args"] == ARGS


def test_what_the_engine_is_asked_for():
    model, engine = scripted(
        Say("a b c"), Say("d"), Say("e"), temperature=0.5, top_p=0.9, seed=7, max_tokens=40, timeout=9
    )
    model.invoke("Hi", stop=["b"])
    [asked] = generated(engine)
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.seed) == (0.5, 0.9, 7)
    assert (asked.max_tokens, asked.stop) == (40, ("b",))
    assert 8 < asked.deadline_s <= 9
    model.invoke("Hi", temperature=0, max_tokens=20)
    assert (generated(engine)[1].sampling.temperature, generated(engine)[1].max_tokens) == (0, 20)


def test_stop_ends_the_answer_and_is_not_in_it():
    model, _ = scripted(Say("One. Two."), stop=["Two"])
    assert model.invoke("Count.").content == "One."


def test_without_a_seed_every_call_draws_anew():
    model, engine = scripted(Say("a"), Say("b"), temperature=1.0)
    model.batch(["Hi", "Hi"], {"max_concurrency": 1})
    first, second = generated(engine)
    assert first.sampling.seed != second.sampling.seed


def test_an_answer_that_is_cut_off_says_so():
    model, _ = scripted(Say("One two three four."), max_tokens=7)
    message = model.invoke("Count.")
    assert message.response_metadata["finish_reason"] == "length"
    assert message.usage_metadata["output_tokens"] == 7


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"configurable": {"thread_id": "t1"}}, {}),
        ({"metadata": {"thread_id": "t1"}}, {}),
        ({}, {"conversation": "t1"}),
    ],
)
@every_way
async def test_a_thread_is_a_conversation_of_the_engine(how, config, options):
    model, engine = scripted(Say("a"))
    await ask(model.with_config(config).bind(**options), "Hi", how)
    assert engine.requests[0].conversation == "t1"


async def test_without_a_thread_there_is_no_conversation():
    model, engine = scripted(Say("a"))
    await model.ainvoke("Hi")
    assert engine.requests[0].conversation is None


@every_way
async def test_a_note_is_reasoning_and_no_content(how):
    reasoning = Reasoning(prefix="Note:", stop=("\n",))
    model, engine = scripted(Call("light", ARGS, text=" dark\n"), Say("x"), reasoning=reasoning)
    message = await ask(model.bind_tools([light]), "It is dark.", how)
    assert (message.text, message.additional_kwargs["reasoning_content"]) == ("", "Note: dark")
    assert [block["type"] for block in message.content_blocks] == ["reasoning", "tool_call"]
    answer = ToolMessage("done", tool_call_id=message.tool_calls[0]["id"])
    model.bind_tools([light]).invoke([HumanMessage("It is dark."), message, answer], tool_choice="none")
    assert "Note: dark" in engine.tokenizer.decode(engine.requests[-1].prompt_ids)


@pytest.mark.parametrize(
    ("raised", "theirs"),
    [
        (DeadlineExceeded("late"), ModelTimeoutError),
        (ContextOverflow(prompt_tokens=9, context_tokens=8), ContextOverflowError),
        (InvalidRequest("bad"), ModelInvalidRequestError),
        (CannotScore("a server"), ModelInvalidRequestError),
        (EngineClosed("gone"), ModelConnectionError),
        (EngineUnavailable("down"), ModelConnectionError),
        (EngineUnauthorized("no"), ModelAuthenticationError),
    ],
)
@every_way
async def test_errors_are_langchains_and_agentforms_at_once(how, raised, theirs):
    model, _ = scripted(Fail(raised))
    with pytest.raises(theirs) as caught:
        await ask(model, "Hi", how)
    assert isinstance(caught.value, type(raised))
    assert str(caught.value) == str(raised)
    assert vars(caught.value).items() >= vars(raised).items()


def test_the_deadline_is_real():
    model, _ = scripted(Say("late", delay_s=600), timeout=0.05)
    with pytest.raises(ModelTimeoutError):
        model.invoke("Hi")


def test_bad_requests_are_refused_with_the_reason():
    model, engine = scripted(Say("x"))
    for options, reason in [
        ({"temprature": 1}, "unknown options: temprature"),
        ({"model": "other"}, "this is 'scripted'"),
        ({"max_tokens": 0}, "at least 1"),
        ({"tool_choice": "any"}, "bound tool: none"),
        ({"response_format": {"type": "yaml"}}, "not of type"),
    ]:
        with pytest.raises(ModelInvalidRequestError, match=reason):
            model.invoke("Hi", **options)
    image = [{"type": "image", "base64": "AA", "mime_type": "image/png"}]
    with pytest.raises(ModelInvalidRequestError, match="'image'"):
        model.invoke([HumanMessage(image)])
    with pytest.raises(ModelInvalidRequestError, match="no message to answer"):
        model.invoke([])
    assert engine.requests == []


def test_misspelt_fields_and_missing_models_are_errors():
    with pytest.raises(ValueError, match="temprature"):
        ChatAgentform(model="m", temprature=1)
    with pytest.raises(ValueError, match="give an engine, or the name"):
        ChatAgentform()
    with pytest.raises(ModelNotFoundError):
        ChatAgentform(model="no-such-model-anywhere").invoke("Hi")


def test_closing_a_stream_cancels_the_turn():
    model, _ = scripted(Say("One two three."), Say("Next."))
    stream = model.stream("Hi")
    assert isinstance(next(stream), AIMessageChunk)
    stream.close()
    assert model.invoke("Hi").content == "Next."


async def test_leaving_an_async_stream_cancels_the_turn():
    model, _ = scripted(Say("One two three."), Say("Next."))
    async for _chunk in model.astream("Hi"):
        break
    assert (await model.ainvoke("Hi")).content == "Next."


async def test_many_at_once():
    model, engine = scripted(*[Say("yes")] * 30)
    answers = await model.abatch(["Hi"] * 30)
    assert [message.content for message in answers] == ["yes"] * 30
    assert engine.num_turns_left == 0


async def test_a_sync_call_works_inside_a_running_loop():
    model, _ = scripted(Say("yes"))
    assert model.invoke("Hi").content == "yes"


def test_copies_share_the_engine():
    model, _ = scripted(Say("a"), Say("b"))
    assert model.model_copy(update={"temperature": 1.0}).invoke("Hi").content == "a"
    assert copy.deepcopy(model._turns) is model._turns


def test_unknown_counts_are_left_out():
    prompt = Usage(prompt_tokens=5, cached_tokens=None)
    made = usage_metadata(prompt, prompt + Usage(completion_tokens=2, reasoning_tokens=1))
    assert "input_token_details" not in made
    assert (made["total_tokens"], made["output_token_details"]) == (7, {"reasoning": 1})


def test_tokens_are_counted_by_the_models_own_tokenizer():
    model, engine = scripted()
    assert model.get_num_tokens("Österreich") == len("Österreich".encode())
    assert model.profile["max_input_tokens"] == engine.info.context_tokens


def test_a_history_of_another_model_can_go_on():
    model, engine = scripted(Say("Two."))
    past = AIMessage(
        [{"type": "text", "text": "I add."}, {"type": "tool_use", "id": "toolu_1", "name": "note", "input": {}}],
        tool_calls=[{"name": "note", "args": {"text": "1+1"}, "id": "toolu_1", "type": "tool_call"}],
    )
    model.bind_tools([note]).invoke([HumanMessage("1+1?"), past, ToolMessage("2", tool_call_id="toolu_1")])
    prompt = engine.tokenizer.decode(engine.requests[0].prompt_ids)
    assert 'I add.\n<tool_call>\n{"name": "note", "arguments": {"text": "1+1"}}' in prompt
