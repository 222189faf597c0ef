"""Arguments that are written without quotes obey what their schema asks, whatever the model leans to."""

from __future__ import annotations

import re
from typing import Annotated

import pytest
from pydantic import Field

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.messages import Message
from agentform.runtime.torch.engine import TorchEngine
from agentform.tools.tool import tool
from agentform.turn.turn import TurnRunner
from agentform.turn.types import TurnOptions
from tests.support.call_templates import CALL_TEMPLATES
from tests.support.tiny_model import write_tiny_model
from tests.support.tiny_tokenizer import write_tiny_tokenizer

pytestmark = pytest.mark.anyio
RAW = ("an element a parameter", "an element right after the name", "elements that say what is a string", "keywords")


@tool
def look_up(
    order: Annotated[str, Field(pattern=r"^[A-Z]{2}-[0-9]{4}$")],
    note: Annotated[str, Field(min_length=2, max_length=5)],
) -> str:
    """Finds an order."""
    return order + note


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_model(folder, endless=True, max_position_embeddings=1024)
    return folder


@pytest.mark.parametrize("name", RAW)
async def test_patterns_and_lengths_hold_in_a_model_that_never_ends_a_value(folder, name):
    write_tiny_tokenizer(folder, template=CALL_TEMPLATES[name])
    engine = TorchEngine(folder, name="tiny")

    async def ignore(event):
        del event

    try:
        runner = TurnRunner(engine=engine, targets={"look_up": look_up.target})
        session = Session(engine, limits=Limits(reasoning_tokens=0, argument_tokens=24, repairs=0))
        asked = [Message(role="user", content="Go")]
        result = await runner.turn(session, asked, options=TurnOptions(may_answer=False), emit=ignore)
    finally:
        engine.close()
    [call] = result.message.calls
    assert re.fullmatch(r"[A-Z]{2}-[0-9]{4}", str(call.arguments["order"]))
    assert 2 <= len(str(call.arguments["note"])) <= 5
