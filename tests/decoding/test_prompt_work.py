"""Long prompts keep the event loop free, and those that cannot fit are not tokenised to their end."""

from __future__ import annotations

import threading

import pytest

from agentform.agent.responder import Responder
from agentform.decoding.prompt_work import check_fits, prompt_work
from agentform.errors import ContextOverflow
from agentform.messages import Message
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer
from agentform.testing import Say, ScriptedEngine
from agentform.turn.turn import TurnRunner


class Watching(ByteTokenizer):
    """Notes how much was encoded, and in which threads anything was rendered."""

    def __init__(self) -> None:
        super().__init__()
        self.num_encoded = 0
        self.rendered_in: set[int] = set()

    def encode(self, text, *, control=False):
        self.num_encoded += len(text)
        return super().encode(text, control=control)

    def render(self, messages, **options):
        self.rendered_in.add(threading.get_ident())
        return super().render(messages, **options)


def said(text: str) -> list[Message]:
    return [Message(role="user", content=text)]


def test_what_cannot_fit_is_not_tokenised_to_its_end():
    tokenizer = Watching()
    engine = ScriptedEngine([], tokenizer=tokenizer)
    with pytest.raises(ContextOverflow):
        check_fits(engine, said("x" * 4_000_000))
    assert tokenizer.num_encoded < 2 * engine.info.context_tokens + 20_000


@pytest.mark.parametrize("size", [10, 1000, 3000])
def test_what_may_fit_is_left_to_the_engine(size):
    check_fits(ScriptedEngine([]), said("x" * size), "y" * size)


@pytest.mark.anyio
@pytest.mark.parametrize(("size", "elsewhere"), [(10, False), (10_000, True)])
async def test_a_long_prompt_is_rendered_in_another_thread(size, elsewhere):
    tokenizer = Watching()
    engine = ScriptedEngine([Say("Hi.")], tokenizer=tokenizer)
    TurnRunner(engine=engine, targets={})  # learns the template's format once
    tokenizer.rendered_in.clear()
    await Responder(engine).respond(said("x" * size))
    assert (threading.get_ident() not in tokenizer.rendered_in) == elsewhere


@pytest.mark.anyio
async def test_small_work_is_done_at_once():
    assert await prompt_work(10, threading.get_ident) == threading.get_ident()
    assert await prompt_work(10_000, threading.get_ident) != threading.get_ident()
