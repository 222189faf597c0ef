"""A call that a model writes in other marks than its own is a call, and no answer is one."""

from __future__ import annotations

import pytest

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.messages import Message, Usage
from agentform.runtime.engine import Chunk
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.tools.tool import tool
from agentform.turn.prose_calls import text_before_call
from agentform.turn.turn import TurnRunner
from agentform.turn.types import TurnOptions
from tests.support.call_templates import CALL_TEMPLATES
from tests.support.recording_engine import RecordingEngine
from tests.support.tiny_tokenizer import write_tiny_tokenizer

pytestmark = pytest.mark.anyio


@tool
def ping() -> str:
    """Says pong."""
    return "pong"


@tool
def pong() -> str:
    """Says ping."""
    return "ping"


class Talker(RecordingEngine):
    """Says one text where nothing is asked of it, and another under a grammar."""

    text = ""

    async def generate(self, request):
        self.generated.append(request)
        said = "Fine." if request.grammar is not None else self.text
        yield Chunk(text=said, token_ids=self.tokenizer.encode(said))
        yield Chunk(finish="eos", usage=Usage())


def last(prompt, branch):
    return tuple(-0.1 if at == len(branch.candidates) - 1 else -4.0 for at, _ in enumerate(branch.candidates))


async def turn(folder, text, options=None):
    tokenizer = HFTokenizer(write_tiny_tokenizer(folder, template=CALL_TEMPLATES["a JSON object between marks"]))
    engine = Talker(tokenizer, score_branch=last)
    engine.text = text
    runner = TurnRunner(engine=engine, targets={"ping": ping.target, "pong": pong.target})

    async def ignore(event):
        del event

    return await runner.turn(
        Session(engine, limits=Limits()), [Message(role="user", content="Go")], options=options, emit=ignore
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "look_up", "arguments": {"a": 1}}',
        '{"name": "ping", "arguments": {"no": "such"}}',
        '{"name": "x", "arguments": {',
    ],
)
async def test_a_call_of_a_made_up_tool_is_a_call_of_one_that_there_is(tmp_path, text):
    result = await turn(tmp_path, f"I look.\n```json\n{text}")
    assert [call.name for call in result.message.calls] == ["pong"]
    assert result.message.content == "I look."


async def test_an_answer_is_no_call(tmp_path):
    text = '{"name": "ping", "arguments": {}}'
    result = await turn(tmp_path, text, TurnOptions(may_call=False))
    assert (result.message.content, result.message.calls) == ("Fine.", ())
    result = await turn(tmp_path / "again", f"It is so. {text}", TurnOptions(may_call=False))
    assert result.message.content == "It is so."


def test_what_is_no_call_stays_text():
    assert text_before_call('{"name": "Ann", "age": 3}') is None
    assert text_before_call("Use {name} and arguments.") is None
    assert text_before_call('So: ```json\n{ "name": "f", "parameters": {') == "So:"
