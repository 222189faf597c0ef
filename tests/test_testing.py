"""The scripted engine itself: it keeps to the engine's seam and says what it was asked for in vain."""

from __future__ import annotations

import math

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import ContextOverflow, DeadlineExceeded, EngineClosed, InvalidRequest, ScriptMismatch
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Branch, Engine, GenerateRequest, ScoreRequest, Tokenizer
from agentform.runtime.scripted.script import unfinished_value
from agentform.testing import ByteTokenizer, Call, Fail, Fill, Say, ScriptedEngine, scripted_call
from tests.support.engines import complete
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio
TOKENIZER = ByteTokenizer()
PROMPT = TOKENIZER.render([{"role": "user", "content": "Hi"}])


def text_of(ids) -> str:
    return TOKENIZER.decode(ids)


def after(text: str) -> tuple[int, ...]:
    return PROMPT + TOKENIZER.encode(text)


async def write(engine, text, *, lead="", follow="", max_tokens=50):
    spec = GrammarSpec(kind="json_schema", text="{}", lead=lead, follow=follow)
    return await complete(engine, after(text), max_tokens, grammar=spec)


async def scores(engine, ids, *branches, aside=False):
    made = [Branch(path=TOKENIZER.encode(path), candidates=TOKENIZER.encode(ends)) for path, ends in branches]
    result = await engine.score(ScoreRequest(prompt_ids=ids, branches=tuple(made), aside=aside))
    return [tuple(round(math.exp(p), 6) for p in row) for row in result.logprobs]


def test_it_is_an_engine_with_a_tokenizer():
    engine = ScriptedEngine([])
    tokenizer: Tokenizer = engine.tokenizer
    assert isinstance(engine, Engine)
    assert tokenizer.encode("<|im_end|>", control=True) == (257,)


@given(text=st.text())
def test_text_survives_the_byte_tokenizer_and_is_never_control(text):
    ids = TOKENIZER.encode(text + "<|im_start|>")
    assert TOKENIZER.decode(ids) == text + "<|im_start|>"
    assert max(ids) < 256


def test_half_a_character_is_shown_as_such():
    assert TOKENIZER.decode(TOKENIZER.encode("é")[:1]) == "\ufffd"


def test_only_the_template_writes_control_tokens():
    messages = [{"role": "user", "content": "<|im_end|>"}, {"role": "assistant", "content": "x"}]
    ids = TOKENIZER.render(messages)
    assert TOKENIZER.decode(ids) == TOKENIZER.render_text(messages)
    assert TOKENIZER.render_text(messages) == (
        "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\nx<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [i for i in ids if i > 255] == [256, 257, 256, 257, 256]


async def test_free_text_comes_in_pieces_and_ends_with_the_turn():
    engine = ScriptedEngine([Say("Hello there, 名古屋.")])
    chunks = [c async for c in engine.generate(GenerateRequest(prompt_ids=PROMPT, max_tokens=99))]
    assert [c.text for c in chunks] == ["Hello", " there,", " 名古屋.", ""]
    assert text_of(tuple(i for c in chunks for i in c.token_ids)) == "Hello there, 名古屋."
    assert chunks[-1].finish == "eos"
    assert chunks[-1].usage.completion_tokens == len("Hello there, 名古屋.".encode()) + 1
    assert chunks[-1].usage.prompt_tokens == len(PROMPT)


async def test_the_stop_string_that_ends_first_ends_the_text():
    done = await complete(ScriptedEngine([Say("a b END c STOP")]), PROMPT, 99, stop=("STOP", "END"))
    assert (done.text, done.last.finish, done.last.stop) == ("a b ", "stop", "END")
    assert text_of(done.token_ids) == "a b END"


@pytest.mark.parametrize("limit", [0, 1, 5, 12])
async def test_the_token_limit_cuts_text_and_the_rest_follows_where_it_stopped(limit):
    engine = ScriptedEngine([Say("One two three")])
    first = await complete(engine, PROMPT, limit)
    assert (first.last.finish, first.usage.completion_tokens) == ("length", limit)
    if limit:
        second = await complete(engine, PROMPT + first.token_ids, 99)
        assert (first.text + second.text, second.last.finish) == ("One two three", "eos")


async def test_a_deadline_ends_a_slow_turn():
    engine = ScriptedEngine([Say("Late.", delay_s=30)])
    with anyio.fail_after(PATIENCE_S):
        done = await complete(engine, PROMPT, 9, deadline_s=0.05)
        assert (done.text, done.last.finish, done.usage.completion_tokens) == ("", "deadline", 0)
        with pytest.raises(DeadlineExceeded):
            await engine.score(ScoreRequest(prompt_ids=PROMPT, branches=(), deadline_s=0.05))


async def test_a_value_is_written_between_lead_and_follow():
    engine = ScriptedEngine([Call("f", {"a": {"b": "é"}, "b": 7}, text='"{ I say')])
    await complete(engine, PROMPT, 99)
    at = '"{ I say\n{"name": "f", "arguments": {"a": {"b":'
    done = await write(engine, at, lead=" ", follow="}}")
    assert (done.text, done.last.finish, done.usage.completion_tokens) == (' "é"}}', "grammar", len('"é"'.encode()))
    assert (await write(engine, at[:-6] + '{"b": "é"}, "b": ')).text == "7"
    cut = await write(engine, at + " ", max_tokens=2, follow="}")
    assert (cut.text, cut.last.finish) == ('"', "length")


async def test_what_is_asked_for_again_is_taken_from_the_repairs():
    engine = ScriptedEngine([Call("f", {"a": 1, "b": 1}, repairs=[{"a": 2}, {"b": 3}])])
    await complete(engine, PROMPT, 99)
    written = [(await write(engine, f'{{"arguments": {{"{key}": ')).text for key in "aaaabb"]
    assert written == ["1", "2", "2", "2", "1", "1"]
    assert (await write(engine, '{"arguments": {"b": ')).text == "3"


async def test_the_scripted_option_gets_its_probability_and_the_others_the_rest():
    engine = ScriptedEngine([Call("get_all", {"unit": "F", "n": 12})], probability=0.7, legal_mass=0.9)
    await complete(engine, PROMPT, 99)
    name, unit, number = after('{"name": "'), after('{"arguments": {"unit":'), after('{"arguments": {"n":')
    assert await scores(engine, name, ("get", '"_'), ("", "gx")) == [(0.2, 0.7), (0.7, 0.2)]
    assert await scores(engine, unit, (' "', "CFK")) == [(0.1, 0.7, 0.1)]
    assert await scores(engine, number, (" 1", "}2"), (" ", "n1")) == [(0.2, 0.7), (0.2, 0.7)]
    assert await scores(engine, after("\nNext step:"), (" get", "\n_")) == [(0.2, 0.7)]


async def test_what_the_script_does_not_answer_is_even():
    engine = ScriptedEngine([Call("f", {"unit": "F"})], legal_mass=0.8)
    other = TOKENIZER.render([{"role": "user", "content": "N/A"}]) + TOKENIZER.encode('{"name": "')
    assert await scores(engine, other, ("", "fg"), aside=True) == [(0.4, 0.4)]
    assert engine.num_turns_left == 1
    await complete(engine, PROMPT, 99)
    assert await scores(engine, other, ("", "fg")) == [(0.4, 0.4)]
    assert await scores(engine, after('{"name": "'), ("g", "xy")) == [(0.4, 0.4)]
    assert engine.num_turns_left == 0


async def test_a_score_begins_a_turn_that_says_nothing_before_its_call():
    engine = ScriptedEngine([Call("f", {"unit": "F"}), Say("Done.")])
    asked = PROMPT + TOKENIZER.encode('{"name": "')
    assert await scores(engine, asked, ("", "fg")) == [(0.9, 0.1)]
    assert await scores(engine, asked, ("", "gf")) == [(0.1, 0.9)]
    assert engine.num_turns_left == 1
    later = PROMPT + TOKENIZER.render([{"role": "user", "content": "And now?"}])
    assert (await complete(engine, later, 99)).text == "Done."
    assert engine.num_turns_left == 0


async def test_a_turn_that_began_with_a_choice_goes_on_with_its_text():
    engine = ScriptedEngine([Say("All is well."), Say("Bye.")])
    assert await scores(engine, PROMPT + TOKENIZER.encode("Next step:"), (" ", "ax")) == [(0.9, 0.1)]
    assert (await complete(engine, PROMPT, 99)).text == "All is well."
    assert engine.num_turns_left == 1


async def test_a_failure_may_come_at_a_choice():
    engine = ScriptedEngine([Fail(EngineClosed("gone"))])
    with pytest.raises(EngineClosed, match="gone"):
        await scores(engine, PROMPT + TOKENIZER.encode("Next step:"), (" ", "ax"))


async def test_absence_is_null_and_presence_the_value():
    engine = ScriptedEngine([Call("f", {"there": [1]})], probability=0.9)
    await complete(engine, PROMPT, 99)
    assert await scores(engine, after('{"arguments": {"there":'), (" ", "n[")) == [(0.1, 0.9)]
    assert await scores(engine, after('{"arguments": {"gone":'), (" ", "n[")) == [(0.9, 0.1)]


@pytest.mark.parametrize(
    ("text", "branch", "reason"),
    [
        ('{"arguments": {"gone":', (' "', "ab"), "asked for 'gone'"),
        ('{"arguments": {"unit":', (' "', "ab"), '"F" for arguments/unit is not among the options'),
        ('{"other":', (' "', "ab"), "asked for other"),
        ('{"name": "', ("", "xy"), '"f" for name is not among the options'),
    ],
)
async def test_scoring_what_is_not_in_the_script_names_it(text, branch, reason):
    engine = ScriptedEngine([Call("f", {"unit": "F"})])
    await complete(engine, PROMPT, 99)
    with pytest.raises(ScriptMismatch, match=reason):
        await scores(engine, after(text), branch)


async def test_writing_what_is_not_in_the_script_names_it():
    engine = ScriptedEngine([Call("f", {"unit": "F"})])
    with pytest.raises(ScriptMismatch, match="no step of the script serves"):
        await write(engine, '{"arguments": {"unit": ')
    await complete(engine, PROMPT, 99)
    with pytest.raises(ScriptMismatch, match="asked for 'gone/deep'"):
        await write(engine, '{"arguments": {"gone": {"deep": ')
    with pytest.raises(ScriptMismatch, match="after all 1"):
        await complete(engine, PROMPT, 99)


async def test_a_form_serves_the_prompts_that_hold_its_text_and_no_others():
    engine = ScriptedEngine([Fill("Hi", {"a": "x"}), Fill("Bye", {"a": "y"})])
    bye = TOKENIZER.render([{"role": "user", "content": "Bye"}]) + TOKENIZER.encode('{"a":')
    none = TOKENIZER.render([{"role": "user", "content": "..."}]) + TOKENIZER.encode('{"a":')
    assert await scores(engine, after('{"a":'), (' "', "xy")) == [(0.9, 0.1)]
    assert await scores(engine, bye, (' "', "xy")) == [(0.1, 0.9)]
    assert await scores(engine, none, (' "', "xy")) == [(0.5, 0.5)]


async def test_an_injected_error_is_a_turn():
    engine = ScriptedEngine([Fail(OSError("disk")), Say("Hello.")])
    with pytest.raises(OSError, match="disk"):
        await complete(engine, PROMPT, 9)
    assert (await complete(engine, PROMPT, 9)).text == "Hello."


async def test_bad_requests_are_refused_and_none_is_served_after_closing():
    engine = ScriptedEngine([Say("Hello.")], context_tokens=len(PROMPT))
    with pytest.raises(ContextOverflow):
        await complete(engine, PROMPT, 9)
    with pytest.raises(InvalidRequest, match="empty prompt"):
        await engine.score(ScoreRequest(prompt_ids=(), branches=()))
    assert engine.statistics().requests == 0
    await complete(engine, PROMPT[1:], 9)
    assert engine.statistics().requests == len(engine.requests) == 1
    await engine.aclose()
    with pytest.raises(EngineClosed):
        await complete(engine, PROMPT[1:], 9)


@pytest.mark.parametrize(
    ("text", "path", "written"),
    [
        ("", (), ""),
        ('"ab', (), '"ab'),
        ('{"a":', ("a",), ""),
        ('{"a": "x{\\"', ("a",), ' "x{\\"'),
        ('{"a": "x\\', ("a",), ' "x\\'),
        ('<tag>\n{"a": {"b": [1, {"c": 2}], "d": "}"}, "e": {"f \\"g": 1', ("e", 'f "g'), " 1"),
    ],
)
def test_where_a_json_text_breaks_off(text, path, written):
    place = unfinished_value(text)
    assert (place.path, place.written) == (path, written)


def test_a_scripted_call_is_a_call_with_its_result():
    called, answered = scripted_call("f", {"a": 1}, "done", text="So.", call_id="c7")
    assert (called.role, called.content, called.calls[0].id) == ("assistant", "So.", "c7")
    assert (answered.role, answered.content, answered.result.call_id) == ("tool", "done", "c7")
