"""Whether another call follows in a turn: asked where the template would write it, in the model's own tokens."""

from __future__ import annotations

import math

import pytest

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.errors import Abstained
from agentform.messages import Message, Usage
from agentform.runtime.engine import Chunk
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.tools.tool import tool
from agentform.turn.turn import TurnRunner
from tests.support.recording_engine import RecordingEngine
from tests.support.tiny_tokenizer import CHATML_WITH_TOOLS, write_tiny_tokenizer

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
    """Begins a call at once, and scores as it is told."""

    async def generate(self, request):
        self.generated.append(request)
        yield Chunk(finish="stop", stop=request.stop[0], usage=Usage())


async def turn(tokenizer, score_branch, parallel_calls=3, **limits):
    engine = Talker(tokenizer, score_branch=score_branch)
    targets = {"ping": ping.target, "pong": pong.target}
    runner = TurnRunner(engine=engine, targets=targets)
    session = Session(engine, limits=Limits(parallel_calls=parallel_calls, **limits))

    async def ignore(event):
        del event

    made = await runner.turn(session, [Message(role="user", content="Go")], emit=ignore)
    return engine, [call.name for call in made.message.calls], made


@pytest.fixture
def tokenizer(tmp_path):
    return HFTokenizer(write_tiny_tokenizer(tmp_path, template=CHATML_WITH_TOOLS))


async def test_the_end_of_the_turn_is_weighed_against_the_beginning_of_a_call(tokenizer):
    asked = []

    def ends(prompt, branch):
        if set(branch.candidates) & tokenizer.eos_ids:
            asked.append((prompt, [tokenizer.decode((c,)) for c in branch.candidates]))
            return tuple(0.0 if c in tokenizer.eos_ids else -5.0 for c in branch.candidates)
        return tuple(-float(i) for i, _ in enumerate(branch.candidates))

    _, names, _ = await turn(tokenizer, ends)
    assert len(names) == 1
    [(prompt, candidates)] = asked
    assert prompt.endswith("</tool_call>")
    assert candidates[0] == "<tool_call>"
    assert "<|im_end|>" in candidates


async def test_a_call_that_is_more_probable_follows_and_is_written_as_the_template_writes_it(tokenizer):
    def goes_on(prompt, branch):
        if set(branch.candidates) & tokenizer.eos_ids:
            return tuple(-9.0 if c in tokenizer.eos_ids else 0.0 for c in branch.candidates)
        another = 1 if "</tool_call>" in prompt else -1  # the first option, and then the last
        return tuple(float(another * i) for i, _ in enumerate(branch.candidates))

    _, names, made = await turn(tokenizer, goes_on)
    assert sorted(names) == ["ping", "pong"]
    again = tokenizer.render(
        [
            {"role": "user", "content": "Go"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"type": "function", "id": c.id, "function": {"name": c.name, "arguments": dict(c.arguments)}}
                    for c in made.message.calls
                ],
            },
        ],
        tools=[ping.definition(), pong.definition()],
        generation_prompt=False,
    )
    assert tokenizer.decode(again).startswith(tokenizer.decode(made.token_ids))


async def test_one_call_is_enough_by_default(tokenizer):
    def never(prompt, branch):
        assert not set(branch.candidates) & tokenizer.eos_ids
        return (-1.0,) * len(branch.candidates)

    _, names, _ = await turn(tokenizer, never, parallel_calls=1)
    assert len(names) == 1


@pytest.mark.parametrize("limits", [{"min_probability": 0.8}, {"min_legal_mass": 0.9}])
async def test_another_call_keeps_to_the_limits_as_the_first_does(tokenizer, limits):
    def unsure(prompt, branch):
        if "</tool_call>" not in prompt:
            return tuple(-9.0 * i for i, _ in enumerate(branch.candidates))
        if not set(branch.candidates) & tokenizer.eos_ids:
            return tuple(-9.0 * i for i, _ in enumerate(branch.candidates))[::-1]
        end = 0.3 / len(tokenizer.eos_ids)
        return tuple(math.log(end if c in tokenizer.eos_ids else 0.5) for c in branch.candidates)

    with pytest.raises(Abstained, match="the next step"):
        await turn(tokenizer, unsure, **limits)
    _, names, made = await turn(tokenizer, unsure)
    assert sorted(names) == ["ping", "pong"]
    decision = made.message.calls[1].decision
    assert decision.probability == pytest.approx(0.5 / 0.8, abs=1e-3)
    assert decision.legal_mass == pytest.approx(0.8, abs=1e-3)
    assert decision.alternatives[0].value is None
