"""Where a template drops past thoughts, the cache holds a snapshot of what stays: the prompt before the thought."""

from __future__ import annotations

import pytest

from agentform._util.prefixes import common_prefix
from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.messages import Message
from agentform.runtime.torch.engine import TorchEngine
from agentform.turn.reasoning import Reasoning
from agentform.turn.turn import TurnRunner
from tests.support.tiny_hybrids import write_tiny_hybrid
from tests.support.tiny_tokenizer import write_tiny_tokenizer

pytestmark = pytest.mark.anyio
# No end of a turn after the user's words, at which a snapshot would be taken anyway.
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ '<|im_start|>user\\n' + m.content + '\\n' }}{% else %}"
    "{{ '<|im_start|>assistant\\n' + m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hybrid")
    write_tiny_hybrid(folder, "qwen3_next", max_position_embeddings=512)
    write_tiny_tokenizer(folder, template=TEMPLATE)
    return folder


async def test_the_next_turn_finds_all_of_the_last_prompt_before_its_thought(folder):
    engine = TorchEngine(folder, name="tiny")
    runner = TurnRunner(engine=engine, targets={}, reasoning=Reasoning(max_tokens=8))

    async def ignore(event):
        del event

    try:
        assert runner.format.reasoning is not None
        assert runner.format.reasoning.kept == "never"
        asked = [Message(role="user", content="hello the world, " * 8)]
        session = Session(engine, limits=Limits(answer_tokens=4))
        first = await runner.turn(session, asked, emit=ignore)
        later = [*asked, first.message, Message(role="user", content="And now?")]
        await runner.turn(session, later, past=first.token_ids, emit=ignore)
        kept = common_prefix(runner.prompt(asked), runner.prompt(later))
    finally:
        engine.close()
    assert session.prompt_usage is not None
    assert session.prompt_usage.cached_tokens == kept > 32
