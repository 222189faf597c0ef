from __future__ import annotations

import json
import re

import pytest

from agentform.errors import GrammarError
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Sampling
from tests.seam.conftest import fresh_prompt
from tests.support.engines import complete

pytestmark = pytest.mark.anyio
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "adult": {"type": "boolean"}},
    "required": ["name", "adult"],
    "additionalProperties": False,
}
SMALL = {"type": "integer", "minimum": 0, "maximum": 999}
STAMP = r"[0-9]{4}-[0-9]{2}"


def json_schema(schema, **around):
    return GrammarSpec(kind="json_schema", text=json.dumps(schema), **around)


async def written(engine, grammar, *, seed=0, max_tokens=60):
    sampling = Sampling(temperature=2.0, seed=seed)
    return await complete(engine, fresh_prompt(), max_tokens, grammar=grammar, sampling=sampling)


@pytest.mark.parametrize("seed", range(3))
async def test_json_is_written_in_one_style(served, seed):
    answer = await written(served.engine, json_schema(PERSON), seed=seed)
    assert answer.last.finish == "grammar"
    assert set(json.loads(answer.text)) == {"name", "adult"}
    assert re.fullmatch(r'\{"name": ".*", "adult": (true|false)\}', answer.text, flags=re.DOTALL)
    await served.settled()


@pytest.mark.parametrize("seed", range(2))
async def test_lead_and_follow_stand_around_the_value(engine, seed):
    answer = await written(engine, json_schema(SMALL, lead=' "a": ', follow=", "), seed=seed)
    value = answer.text.removeprefix(' "a": ').removesuffix(", ")
    assert answer.last.finish == "grammar"
    assert isinstance(json.loads(value), int)
    assert answer.text == f' "a": {value}, '


async def test_a_regular_expression_holds(engine):
    alone = await written(engine, GrammarSpec(kind="regex", text=STAMP))
    assert re.fullmatch(STAMP, alone.text)
    framed = await written(engine, GrammarSpec(kind="regex", text=STAMP, lead="on ", follow="\n"))
    assert re.fullmatch(rf"on {STAMP}\n", framed.text)


async def test_a_lark_grammar_holds(engine):
    spec = GrammarSpec(kind="lark", text='start: pair ("," pair)*\npair: /[a-c]{2}/ "=" /[0-9]{1,2}/', follow=";")
    answer = await written(engine, spec)
    assert re.fullmatch(r"[a-c]{2}=[0-9]{1,2}(,[a-c]{2}=[0-9]{1,2})*(;|,?.*)", answer.text)
    assert answer.last.finish in ("grammar", "length")


async def test_a_wholly_forced_value_samples_nothing(engine):
    answer = await complete(engine, fresh_prompt(), 8, grammar=json_schema({"const": "é"}, follow=", "))
    assert (answer.text, answer.token_ids, answer.last.finish) == ('"é", ', (), "grammar")


async def test_what_llguidance_does_not_enforce_is_left_out_and_no_error(engine):
    answer = await written(engine, json_schema({"type": "boolean", "not": {"const": True}}))
    assert answer.text in ("true", "false")


async def test_a_limit_ends_inside_the_value(engine):
    answer = await written(engine, json_schema({"type": "string", "minLength": 50}), max_tokens=10)
    assert answer.last.finish == "length"
    assert answer.text.startswith('"')
    assert answer.usage.completion_tokens <= 10


async def test_a_stop_string_works_under_a_grammar(engine):
    answer = await written(engine, GrammarSpec(kind="regex", text="[ab]{4}c[ab]{40}"), max_tokens=100)
    assert "c" in answer.text
    stopped = await complete(
        engine, fresh_prompt(), 100, grammar=GrammarSpec(kind="regex", text="[ab]{4}c[ab]{40}"), stop=("c",)
    )
    assert (stopped.last.finish, len(stopped.text)) == ("stop", 4)


@pytest.mark.parametrize(
    "spec",
    [
        GrammarSpec(kind="json_schema", text="{bad"),
        GrammarSpec(kind="json_schema", text="[]"),
        GrammarSpec(kind="regex", text="(a"),
        GrammarSpec(kind="lark", text="start: nothing_defined"),
    ],
)
async def test_a_grammar_that_does_not_compile_is_an_error(served, spec):
    with pytest.raises(GrammarError):
        await complete(served.engine, fresh_prompt(), 8, grammar=spec)
    await served.settled()
