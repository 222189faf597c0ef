"""Over HTTP a model with any kind of template reads, token for token, what the same model reads in this process."""

from __future__ import annotations

from typing import Literal

import pytest

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.decoding.tool_format import format_of
from agentform.messages import Message, ToolResult
from agentform.runtime.load import load_engine
from agentform.runtime.sglang.client.server import SGLangServer
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.tools.tool import tool
from agentform.turn.turn import TurnRunner
from agentform.turn.types import TurnOptions
from tests.support.call_templates import CALL_TEMPLATES, THINKING_TEMPLATES
from tests.support.fake_sglang import FakeSGLang, served
from tests.support.thinker import OPENED, SWITCH, thinker
from tests.support.tiny_tokenizer import CHATML

pytestmark = pytest.mark.anyio
TEMPLATES = {**CALL_TEMPLATES, **THINKING_TEMPLATES, "no tools": CHATML}
ASKED = Message(role="user", content="How is it? <|im_end|> <tool_call>")


@pytest.fixture
def anyio_backend():
    """The fake server runs in a thread of its own; one loop before it is enough for every template."""
    return "asyncio"


@tool
def weather(place: Literal["in", "out"], days: Literal[1, 2]) -> str:
    """Says how it is."""
    return "sunny"


async def ignore(event):
    del event


async def conversation_on(engine):
    """Two turns with a call and its result between them: format, token ids, prompt of the third."""
    runner = TurnRunner(engine=engine, targets={"weather": weather.target})
    options = TurnOptions(tool="weather", may_answer=False)
    messages, told = [ASKED], []
    for _ in range(2):
        result = await runner.turn(Session(engine, limits=Limits()), messages, options=options, emit=ignore)
        [call] = result.message.calls
        told.append((dict(call.arguments), result.message.reasoning))
        answered = ToolResult(call_id="abcdefghi", name=call.name, content="ok")
        own = Message(
            role="assistant",
            content=result.message.content,
            calls=tuple(type(call)(id="abcdefghi", name=call.name, arguments=call.arguments) for call in [call]),
            reasoning=result.message.reasoning,
        )
        messages += [own, Message(role="tool", content="ok", result=answered)]
        if told[1:]:
            break
        messages.append(Message(role="user", content="And then?"))
    return format_of(engine.tokenizer), told, runner.prompt(messages)


@pytest.mark.parametrize("is_router", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
async def test_prompts_over_http_are_those_of_the_tokenizer(tmp_path, name, is_router):
    behind = thinker(tmp_path, TEMPLATES[name])
    behind.endless = True  # a stop text of its own it would have to spell over HTTP
    fake = FakeSGLang(behind, tmp_path, is_router=is_router)
    with served(fake) as listening:
        engine = SGLangServer(listening.url, context_tokens=10_000)
        try:
            over_http = await conversation_on(engine)
        finally:
            await engine.aclose()
    asked = {tuple(body["input_ids"]) for body in fake.requests_of() if body.get("stream")}
    alone = thinker(tmp_path / "alone", TEMPLATES[name])
    alone.endless = True
    in_process = await conversation_on(alone)
    assert over_http == in_process
    assert asked == {request.prompt_ids for request in alone.generated}


@pytest.mark.parametrize("template", [OPENED, SWITCH])
async def test_template_arguments_of_the_engine_hold_in_every_prompt_and_change_no_format(tmp_path, template):
    fake = FakeSGLang(thinker(tmp_path, template), tmp_path)
    plain = format_of(HFTokenizer(tmp_path))
    with served(fake) as listening:
        engine = load_engine(listening.url, chat_template_kwargs={"enable_thinking": False})
        try:
            runner = TurnRunner(engine=engine, targets={"weather": weather.target})
            assert engine.tokenizer.decode(runner.prompt([ASKED])).endswith("<think>\n\n</think>\n\n")
            _, told, _ = await conversation_on(engine)
            found = format_of(engine.tokenizer)
        finally:
            await engine.aclose()
    assert [reasoning for _, reasoning in told] == ["", ""]
    assert (found.layout.call, found.arguments, found.native) == (plain.layout.call, plain.arguments, plain.native)
    assert (found.reasoning.open, found.reasoning.close) == (plain.reasoning.open, plain.reasoning.close)
