from __future__ import annotations

import json
import re

import pytest

from agentform.errors import GrammarError
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Sampling
from tests.support.engines import complete, settled

pytestmark = pytest.mark.anyio
PROMPT = tuple(range(20, 60))


def json_schema(schema, **around):
    return GrammarSpec(kind="json_schema", text=json.dumps(schema), **around)


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "adult": {"type": "boolean"}},
    "required": ["name", "adult"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("seed", range(4))
async def test_json_is_written_in_one_style(engine, seed):
    answer = await complete(
        engine, PROMPT, 60, grammar=json_schema(PERSON), sampling=Sampling(temperature=2.0, seed=seed)
    )
    assert answer.last.finish == "grammar"
    value = json.loads(answer.text)
    assert set(value) == {"name", "adult"}
    assert re.fullmatch(r'\{"name": ".*", "adult": (true|false)\}', answer.text, flags=re.DOTALL)
    await settled(engine)


async def test_forced_text_is_computed_but_not_sampled(engine):
    answer = await complete(engine, PROMPT, 60, grammar=json_schema(PERSON))
    written = len(answer.token_ids)
    assert answer.usage.completion_tokens < written
    # The prompt, and all that was written but its last token.
    assert answer.usage.computed_tokens == 40 + written - 1
    assert answer.text.endswith("}")
    # The closing brace is the forced remainder: it is text, and no token.
    assert engine.tokenizer.decode(answer.token_ids) + "}" == answer.text or answer.text.endswith("e}")


async def test_forced_tokens_are_those_the_tokenizer_gives(engine):
    answer = await complete(engine, PROMPT, 60, grammar=json_schema(PERSON))
    start = engine.tokenizer.encode('{"name":')
    assert answer.token_ids[: len(start)] == start


async def test_a_wholly_forced_value_samples_and_computes_nothing(engine):
    answer = await complete(engine, PROMPT, 8, grammar=json_schema({"const": "é"}, follow=", "))
    assert (answer.text, answer.token_ids, answer.last.finish) == ('"é", ', (), "grammar")
    assert (answer.usage.computed_tokens, answer.usage.completion_tokens) == (0, 0)
    assert engine.statistics().requests == 0


@pytest.mark.parametrize("seed", range(5))
async def test_lead_and_follow_stand_around_the_value(engine, seed):
    spec = json_schema({"type": "string", "maxLength": 3}, lead=" ", follow=', "age": ')
    answer = await complete(engine, PROMPT, 40, grammar=spec, sampling=Sampling(temperature=3.0, seed=seed))
    assert answer.last.finish == "grammar"
    assert answer.text.startswith(' "')
    assert answer.text.endswith('", "age": ')
    json.loads(answer.text[: -len(', "age": ')])


async def test_a_value_may_close_with_a_token_that_reaches_beyond_it(engine):
    """The vocabulary has `",` as one token."""
    closing = engine.tokenizer.encode('",')
    assert len(closing) == 1
    spec = GrammarSpec(kind="regex", text='"[xy]{1,3}"', follow=", z")
    for seed in range(30):
        answer = await complete(engine, PROMPT, 10, grammar=spec, sampling=Sampling(temperature=5.0, seed=seed))
        assert re.fullmatch(r'"[xy]{1,3}", z', answer.text)
        if closing[0] in answer.token_ids:
            return
    raise AssertionError("the merged token was never chosen")


async def test_regex_value_does_not_swallow_what_follows(engine):
    spec = GrammarSpec(kind="regex", text="[a-z,]{1,4}", lead="<", follow=',"')
    for seed in range(5):
        answer = await complete(engine, PROMPT, 20, grammar=spec, sampling=Sampling(temperature=3.0, seed=seed))
        assert re.fullmatch(r'<[a-z,]{1,4},"', answer.text)
        assert answer.last.finish == "grammar"


async def test_lark(engine):
    spec = GrammarSpec(kind="lark", text='start: pair+\npair: "a" | "bc"', follow=";")
    answer = await complete(engine, PROMPT, 200, grammar=spec, sampling=Sampling(temperature=1.0))
    assert re.fullmatch("(a|bc)+;", answer.text) or answer.last.finish == "length"


async def test_running_out_of_tokens_inside_a_value_says_length(engine):
    spec = json_schema({"type": "string", "minLength": 30, "pattern": "^[b-d]+$"})
    answer = await complete(engine, PROMPT, 5, grammar=spec)
    assert (answer.last.finish, answer.usage.completion_tokens) == ("length", 5)
    assert not answer.text.endswith('"')


async def test_printable_text_is_never_escaped(engine):
    spec = json_schema({"type": "string", "maxLength": 6})
    for seed in range(12):
        answer = await complete(engine, PROMPT, 60, grammar=spec, sampling=Sampling(temperature=4.0, seed=seed))
        for code in re.findall(r"\\u([0-9a-fA-F]{4})", answer.text):
            assert int(code, 16) < 0x20


async def test_stop_strings_hold_under_a_grammar(engine):
    answer = await complete(engine, PROMPT, 60, grammar=json_schema(PERSON), stop=('": ',))
    assert (answer.text, answer.last.finish, answer.last.stop) == ('{"name', "stop", '": ')


@pytest.mark.parametrize("spec", [GrammarSpec(kind="regex", text="(("), json_schema({"type": "nothing"})])
async def test_a_grammar_that_does_not_compile_is_refused(engine, spec):
    with pytest.raises(GrammarError):
        await complete(engine, PROMPT, 4, grammar=spec)
    assert engine.statistics().requests == 0


async def test_forced_text_longer_than_the_context_ends_with_length(engine):
    spec = json_schema({"enum": ["x" * 300 + "a", "x" * 300 + "b"]})
    answer = await complete(engine, PROMPT, 400, grammar=spec)
    assert answer.last.finish == "length"
    await settled(engine)


async def test_forced_text_beyond_the_cache_ends_with_length(make_engine):
    """After one free token come 60 forced ones, in a pool with room for ten."""
    engine = make_engine(positions=52)
    spec = GrammarSpec(kind="regex", text="(a|b)" + "xy" * 30 + "(a|b)")
    answer = await complete(engine, PROMPT, 2, grammar=spec)
    assert answer.last.finish == "length"
    await settled(engine)
