"""agentform's own driver on the demo model: it reads the prompt that the peers get, and answers within the schema."""

from __future__ import annotations

import pytest

from agentform import PriorStore
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.resolve import resolve_model
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from benchmarks.common.harness import Context
from benchmarks.common.timing_form import timing_item
from benchmarks.peers.bfcl import load_questions
from benchmarks.peers.drivers.agentform import Agentform
from benchmarks.peers.identity import difference
from benchmarks.peers.prompts import call_task, form_task, text_task
from benchmarks.peers.task import Model
from benchmarks.peers.validity import is_valid

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def setting():
    folder = resolve_model("smollm2-135m")
    tokenizer = HFTokenizer(folder)
    driver = Agentform(PriorStore())
    driver.load(Model(folder=str(folder), gguf=str(folder / CATALOGUE["smollm2-135m"].gguf), threads=1))
    yield driver, tokenizer
    driver.close()


def test_a_form_and_a_call_are_made_from_the_peers_prompt(setting):
    driver, tokenizer = setting
    question = load_questions(Context(name="peers", data=None, quick=True), 1)[0]
    form = form_task(tokenizer, timing_item(tokenizer, 2, 60, "x"))
    call = call_task(tokenizer, question.messages, question.tools)
    for task in (form, call):
        found = driver.prompt_ids(task)
        assert difference(task, found, len(tokenizer.encode(task.opening))) is None
        assert found is not None
        assert driver.prompt_ids(text_task(task, max_tokens=1)) is None
        written = driver.run(task)
        assert is_valid(written.text, task.schema)
    # The only tool that there is needs no choosing, so the first request reads all that stands before its arguments.
    frame = tokenizer.encode(f'{call.opening}{{"name": "rooms_book", "arguments":')
    assert written.prompt_tokens == len(call.ids) - len(tokenizer.encode(call.opening)) + len(frame)


def test_free_text_goes_on_from_the_ids(setting):
    driver, tokenizer = setting
    task = text_task(form_task(tokenizer, timing_item(tokenizer, 1, 40, "y")), max_tokens=3)
    written = driver.run(task)
    assert (written.completion_tokens, written.finish) == (3, "length")
    assert written.prompt_tokens == len(task.ids)
