from __future__ import annotations

import pytest

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext
from agentform.events import ArgumentDelta
from agentform.forms.generate import write_leaves
from agentform.forms.progress import Watch
from agentform.forms.state import FormState
from agentform.forms.word_ends import before_last_word
from agentform.runtime.engine import Chunk
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer
from agentform.runtime.scripted.engine import ScriptedEngine
from agentform.runtime.scripted.script import Fill
from agentform.schema.target import load
from tests.support.recording_engine import RecordingEngine

pytestmark = pytest.mark.anyio


class Writer(RecordingEngine):
    """Writes one text as the value, in pieces of three bytes, and would go on with another."""

    def __init__(self, text: str, goes_on: str) -> None:
        super().__init__()
        self.text, self.goes_on = text, goes_on

    async def generate(self, request):
        self.generated.append(request)
        spec = request.grammar
        whole = self.goes_on if spec is None else spec.lead + self.text + spec.follow
        for at in range(0, len(whole), 3):
            yield Chunk(text=whole[at : at + 3])
        yield Chunk(finish="length" if spec is None else "grammar")


async def written(text: str, goes_on: str, **schema):
    """The value, how it came about, what was told of it, and how many requests it took."""
    leaf = {"type": "string", "maxLength": len(text), **schema}
    target = load({"type": "object", "properties": {"a": leaf}, "required": ["a"]})
    engine, told = Writer(f'"{text}"', goes_on), []

    async def emit(event):
        told.append(event)

    state = await write_leaves(
        Session(engine, limits=Limits()),
        TokenContext(ids=(1,)),
        FormState(root=target.form.root),
        watch=Watch(emit=emit),
    )
    [evidence] = state.evidence()
    assert "".join(event.text for event in told if isinstance(event, ArgumentDelta)) == f'"{evidence.value}"'
    return evidence.value, evidence.how, len(engine.generated)


@pytest.mark.parametrize("goes_on", ["ived", "é", "9"])
async def test_a_word_that_would_go_on_is_left_out_and_the_stream_says_the_same(goes_on):
    assert await written("The parcel arr", goes_on) == ("The parcel", "shortened", 2)
    assert await written("Zwölf  Boxk", goes_on) == ("Zwölf", "shortened", 2)


@pytest.mark.parametrize("goes_on", [" ", ".", "", "\n", '"'])
async def test_a_text_that_is_over_stays_as_it_is(goes_on):
    assert await written("The parcel arrived", goes_on) == ("The parcel arrived", "generated", 2)


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("The parcel arr", {"minLength": 11}),
        ("The parcel arr", {"pattern": "arr$"}),
        ("Parcelarr", {}),
        ("The parcel.", {}),
        ("The 小包", {}),
        ("The parcel arr", {"maxLength": 90}),
        ("The parcel arr", {"format": "hostname", "pattern": "^T"}),
    ],
)
async def test_what_the_schema_or_the_script_does_not_let_be_cut_is_not_asked_about(text, schema):
    assert await written(text, "ived", **schema) == (text, "generated", 1)


def test_a_last_word_is_what_stands_after_the_last_spaces():
    assert [before_last_word(text) for text in ("", "a", "a b", "a  b", " b")] == ["", "", "a", "a", ""]


async def test_a_script_is_not_asked_for_more_where_a_text_is_as_long_as_it_may_be():
    target = load(
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 7}}, "required": ["a"]}, name="note"
    )
    engine = ScriptedEngine([Fill("x", {"a": "two wor"})])
    state = await write_leaves(
        Session(engine, limits=Limits()),
        TokenContext(ids=ByteTokenizer().render([{"role": "user", "content": "x"}])),
        FormState(root=target.form.root),
    )
    assert state.value == {"a": "two wor"}
    assert engine.num_turns_left == 0
