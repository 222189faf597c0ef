"""The whole of agentform on the demo model in SGLang."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from pydantic import BaseModel, Field

from agentform import Agent, Limits, fill, tool
from agentform.runtime.engine import Branch, GenerateRequest, ScoreRequest
from agentform.runtime.models.digest import digest_of

pytestmark = [pytest.mark.anyio, pytest.mark.model]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@tool
def set_light(room: Literal["kitchen", "office"], on: bool) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}."


class Ticket(BaseModel):
    """What a customer writes."""

    category: Literal["billing", "delivery", "technical"]
    urgent: bool
    name: str = Field(max_length=20)


async def test_scores_are_as_near_to_float32_as_those_of_transformers(demo_on_sglang, weights_folder):
    from transformers import AutoModelForCausalLM

    exact, rounded = (
        AutoModelForCausalLM.from_pretrained(weights_folder, dtype=dtype).eval()
        for dtype in (torch.float32, torch.bfloat16)
    )
    encode = demo_on_sglang.tokenizer.encode
    prompt = encode("The capital of France is Paris. The capital of Italy is")
    paths = ((), encode(" Rome"), encode(" Rome, and the capital of Spain is"))
    candidates = [encode(text)[0] for text in (" Rome", " Madrid", ",", ".", " the")]
    branches = tuple(Branch(path=path, candidates=tuple(candidates)) for path in paths)
    result = await demo_on_sglang.score(ScoreRequest(prompt_ids=prompt, branches=branches))

    def of(model) -> torch.Tensor:
        with torch.no_grad():
            logits = [model(torch.tensor([prompt + path])).logits[0, -1].float() for path in paths]
        return torch.stack([each.log_softmax(dim=-1)[candidates] for each in logits])

    wanted, found = of(exact), torch.tensor(result.logprobs)
    # Thirty layers in bfloat16 put transformers itself 0.07 to 0.14 off here; in float32 SGLang agrees to 0.0001.
    assert float((found - wanted).abs().max()) <= 1.5 * float((of(rounded) - wanted).abs().max())
    assert float((found.exp() - wanted.exp()).abs().max()) < 0.02


async def test_a_form_is_filled(demo_on_sglang):
    filled = await fill(demo_on_sglang, "I am Ada. My parcel has not arrived and I need it tomorrow!", Ticket)
    assert isinstance(filled.value, Ticket)
    assert filled["/category"].how == "scored"
    assert 0 < filled["/category"].probability <= 1
    assert filled["/name"].how == "generated"
    assert filled.usage.cached_tokens > 0
    assert filled.usage.completion_tokens > 0


async def test_an_agent_calls_its_tool_and_its_second_run_finds_the_first_one_cached(demo_on_sglang):
    limits = Limits(steps=2, reasoning_tokens=8, answer_tokens=12)
    agent = Agent(demo_on_sglang, tools=[set_light], limits=limits)
    first = await agent.run("Please switch on the light in the office.")
    assert first.calls
    assert all(call.arguments.keys() == {"room", "on"} for call in first.calls)
    assert {evidence.how for evidence in first.calls[0].evidence} == {"scored"}
    again = await agent.run("Please switch on the light in the office.")
    assert again.usage.cached_tokens > 0.9 * again.usage.prompt_tokens
    assert again.usage.computed_tokens < first.usage.computed_tokens


async def test_langchain(demo_on_sglang):
    pytest.importorskip("langchain_core")
    from langchain_core.messages import HumanMessage

    from langchain_agentform import ChatAgentform

    model = ChatAgentform(engine=demo_on_sglang, limits=Limits(reasoning_tokens=8, answer_tokens=12))
    bound = model.bind_tools([lights], tool_choice="lights")
    first = await bound.ainvoke([HumanMessage("Please switch on the light in the office.")])
    [call] = first.tool_calls
    assert (call["name"], call["args"].keys()) == ("lights", {"room", "on"})
    again = await bound.ainvoke([HumanMessage("Please switch on the light in the office.")])
    assert again.usage_metadata["input_token_details"]["cache_read"] > 0
    streamed = [chunk async for chunk in model.astream([HumanMessage("Hello!")])]
    assert "".join(chunk.text for chunk in streamed)


def lights(room: Literal["kitchen", "office"], on: bool) -> str:
    """Switch the light in a room."""
    return f"{room} {on}"


async def test_a_real_tokenizer_streams_whole_characters(demo_on_sglang):
    engine = demo_on_sglang
    prompt = engine.tokenizer.render([{"role": "user", "content": "Write three emojis and a word in Chinese."}])
    request = GenerateRequest(prompt_ids=prompt, max_tokens=40)
    chunks = [chunk async for chunk in engine.generate(request)]
    text = "".join(chunk.text for chunk in chunks)
    ids = tuple(token for chunk in chunks for token in chunk.token_ids)
    assert engine.tokenizer.decode(ids).rstrip("\ufffd") == text.rstrip("\ufffd")


def test_the_model_is_identified_as_by_the_embedded_engine(demo_on_sglang, weights_folder):
    info = demo_on_sglang.info
    assert (info.name, info.digest) == ("smollm2-135m", digest_of(weights_folder, torch.bfloat16))
    assert info.context_tokens == 8192
