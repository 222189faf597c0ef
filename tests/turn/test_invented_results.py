"""A result that a model invents ends its text: nobody is shown one, where results are text in a user's message."""

from __future__ import annotations

import pytest

from agentform import Agent, Limits, tool
from agentform.messages import Usage
from agentform.runtime.engine import Chunk
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.call_templates import CALL_TEMPLATES
from tests.support.recording_engine import RecordingEngine
from tests.support.tiny_tokenizer import CHATML, write_tiny_tokenizer

pytestmark = pytest.mark.anyio
INVENTED = "<tool_response>"


@tool
def ping() -> str:
    """Ping."""
    return "pong"


class Inventor(RecordingEngine):
    """Writes a result of a tool after `said`, as far as it is let; answers rather than calls."""

    said = "It is fine. "

    async def generate(self, request):
        self.generated.append(request)
        if request.grammar is not None:
            yield Chunk(text="plain words", token_ids=self.tokenizer.encode("plain words"))
            yield Chunk(finish="grammar", usage=Usage())
            return
        text, finish, stop = f"{self.said}{INVENTED}\nsunny\n</tool_response>", "eos", None
        if INVENTED in request.stop:
            text, finish, stop = self.said, "stop", INVENTED
        if text:
            yield Chunk(text=text, token_ids=self.tokenizer.encode(text))
        yield Chunk(finish=finish, stop=stop, usage=Usage(completion_tokens=3))


def engine_of(folder, template=CHATML):
    def answer(prompt, branch):
        last = len(branch.candidates) - 1
        return tuple(-0.1 if at == last else -5.0 for at, _ in enumerate(branch.candidates))

    return Inventor(HFTokenizer(write_tiny_tokenizer(folder, template=template)), score_branch=answer)


@pytest.mark.parametrize("reasoning_tokens", [0, 32])
async def test_an_invented_result_ends_the_text(tmp_path, reasoning_tokens):
    agent = Agent(engine_of(tmp_path), tools=[ping], limits=Limits(reasoning_tokens=reasoning_tokens))
    assert (await agent.run("How is it?")).output == "It is fine."


async def test_an_answer_that_is_nothing_else_is_written_again_in_plain_words(tmp_path):
    engine = engine_of(tmp_path)
    engine.said = ""
    assert (await Agent(engine, tools=[ping]).run("How is it?")).output == "plain words"


async def test_without_tools_and_in_formats_with_a_role_for_results_such_text_is_text(tmp_path):
    assert INVENTED in (await Agent(engine_of(tmp_path / "a")).run("How is it?")).output
    native = engine_of(tmp_path / "b", CALL_TEMPLATES["a JSON object between marks"])
    await Agent(native, tools=[ping]).run("How is it?")
    assert all(INVENTED not in request.stop for request in native.generated)
