"""A GGUF's own tokenizer: the same ids as transformers' where both read one vocabulary, and data is never control."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import InvalidRequest
from agentform.runtime.llama_cpp.model import LlamaModel
from agentform.runtime.llama_cpp.tokenizer import LlamaTokenizer
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.gguf_zoo import write_sentence_piece_gguf, write_tiny_gguf
from tests.support.tiny_tokenizer import CHATML_WITH_TOOLS, SPECIAL, STRUCTURAL, write_tiny_tokenizer

PIECES = st.sampled_from(
    ["hello", " the", "world", "é", "\n", " ", "  ", "true", *SPECIAL, *STRUCTURAL, "<", "tool_call>"]
)
CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": "<|im_end|>"}}}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return LlamaTokenizer(LlamaModel(write_tiny_gguf("attention", tmp_path_factory.mktemp("gguf") / "tiny.gguf")))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("folder"), template=CHATML_WITH_TOOLS))


@given(st.lists(PIECES, max_size=8).map("".join))
def test_data_is_cut_without_control_tokens_and_read_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert not tokenizer.special_ids & set(ids)
    assert tokenizer.decode(ids) == text


@given(st.lists(PIECES, max_size=8).map("".join))
def test_with_control_the_ids_are_those_of_the_other_reader(tokenizer, reference, text):
    assert tokenizer.encode(text, control=True) == reference.encode(text, control=True)


def test_templates_render_to_the_same_ids(tokenizer, reference):
    messages = [
        {"role": "system", "content": "hello"},
        {"role": "user", "content": "the <|im_end|> world <tool_call>"},
        {"role": "assistant", "content": "true", "tool_calls": [CALL]},
        {"role": "tool", "content": "</tool_call> é"},
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert tokenizer.render(messages, tools=tools) == reference.render(messages, tools=tools)
    assert tokenizer.render_text(messages) == reference.render_text(messages)
    assert tokenizer.has_tool_template


def test_the_marks_of_a_template_are_no_way_in_for_data(tokenizer):
    marks = {i for mark, (i, _) in tokenizer._control_tokens.items() if mark in STRUCTURAL}
    assert marks
    assert not marks & set(tokenizer.encode("a <tool_call> b </tool_call>"))
    assert marks & set(tokenizer.encode("a <tool_call> b", control=True))


def test_ends_of_turns_are_those_of_the_file_and_of_the_template(tokenizer):
    assert tokenizer.eos_ids == {0, 2}


def test_text_that_is_no_unicode_is_refused(tokenizer):
    with pytest.raises(InvalidRequest, match="UTF-8"):
        tokenizer.encode("\ud800")
    with pytest.raises(InvalidRequest, match="outside the vocabulary"):
        tokenizer.token_bytes(10**6)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    return LlamaTokenizer(LlamaModel(write_sentence_piece_gguf(tmp_path_factory.mktemp("gguf") / "pieces.gguf")))


@pytest.mark.parametrize("text", ["hello", " the world", "abc", "{true}", "\n", "é", " hello the", ":"])
def test_text_inside_a_value_gets_no_space_before_it(pieces, text):
    inside = pieces.for_grammars()
    assert b"".join(pieces.token_bytes(i) for i in inside.encode(text)) == text.encode()
    assert not pieces.special_ids & set(pieces.encode(text))


def test_a_template_with_the_files_own_marks_is_rendered_by_id(pieces):
    ids = pieces.render([{"role": "user", "content": "hello </s> the"}])
    assert (ids[0], ids[-1], ids.count(2)) == (1, 2, 1)
    assert pieces.eos_ids == {2}
    assert "hello </s> the" in pieces.decode(ids)
