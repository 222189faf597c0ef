from __future__ import annotations

import math
import time
from functools import partial

import pytest

from agentform.errors import ContextOverflow, GrammarError, InvalidRequest
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Branch, GenerateRequest, ModelInfo, ScoreRequest
from agentform.runtime.preparation import deadline_after, left_s, prepare_generation, prepare_score

pytestmark = pytest.mark.anyio

INFO = ModelInfo(name="m", digest="d", context_tokens=8, vocabulary_size=100)
ask = partial(GenerateRequest, max_tokens=1)


class Slow:
    """Grammars that take their time, and refuse one."""

    def __init__(self) -> None:
        self.asked = []

    async def compiled(self, spec: GrammarSpec) -> str:
        self.asked.append(spec)
        if spec.text == "(":
            raise GrammarError("no grammar")
        return f"compiled {spec.text}"


async def test_a_deadline_begins_when_the_request_comes_and_none_is_never():
    before = time.monotonic()
    prepared = await prepare_generation(ask(prompt_ids=(1,), deadline_s=5.0), INFO, None)
    assert before + 5.0 <= prepared.deadline <= time.monotonic() + 5.0
    assert (await prepare_generation(ask(prompt_ids=(1,)), INFO, None)).deadline == math.inf
    assert prepare_score(ScoreRequest(prompt_ids=(1,), branches=()), INFO) == math.inf
    assert left_s(deadline_after(None)) == math.inf
    assert left_s(deadline_after(-1.0)) < 0


async def test_a_grammar_is_compiled_after_the_request_was_found_right():
    grammars = Slow()
    spec = GrammarSpec(kind="regex", text="a")
    with pytest.raises(ContextOverflow):
        await prepare_generation(ask(prompt_ids=(1,) * 8, grammar=spec), INFO, grammars)
    assert grammars.asked == []
    prepared = await prepare_generation(ask(prompt_ids=(1,), grammar=spec), INFO, grammars)
    assert prepared.grammar == "compiled a"
    with pytest.raises(GrammarError):
        await prepare_generation(ask(prompt_ids=(1,), grammar=GrammarSpec(kind="regex", text="(")), INFO, grammars)


async def test_an_engine_without_grammars_compiles_none():
    spec = GrammarSpec(kind="regex", text="a")
    assert (await prepare_generation(ask(prompt_ids=(1,), grammar=spec), INFO, None)).grammar is None


async def test_a_request_that_cannot_be_served_is_refused():
    with pytest.raises(InvalidRequest, match="empty prompt"):
        await prepare_generation(ask(prompt_ids=()), INFO, None)
    with pytest.raises(InvalidRequest, match=r"\[0, 100\)"):
        prepare_score(ScoreRequest(prompt_ids=(1,), branches=(Branch(path=(), candidates=(100,)),)), INFO)
