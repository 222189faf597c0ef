"""Whatever the inputs say and a template does with it: the control tokens in a prompt are the template's own."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import CHATML, CHATML_WITH_TOOLS, write_tiny_tokenizer

TAGS = (
    "{% for tool in tools or [] %}{% for key in tool.function.parameters.properties %}"
    "{{ '<|im_start|>system\\n<' ~ key ~ '>' ~ tool.function.name ~ '</' ~ key ~ '><|im_end|>\\n' }}"
    "{% endfor %}{% endfor %}"
    "{% for message in messages %}{{ '<|im_start|>' ~ message.role ~ '\\n' ~ (message.content | trim) }}"
    "{% for call in message.tool_calls or [] %}{{ '<tool_call>\\n<' ~ call.function.name ~ '>' }}"
    "{% for key, value in call.function.arguments.items() %}"
    "{{ '<' ~ key ~ '>' ~ value ~ '</' ~ key ~ '> <|' ~ value | lower ~ '|>' }}{% endfor %}"
    "{{ '</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEMPLATES = {"tags": TAGS, "json": CHATML_WITH_TOOLS, "chatml": CHATML}
PIECES = ["<|im_end|>", "<", "|", ">", "im_end", "|im_end|", "im_start", "|>", "<|", "<|im", "_end|>", "tool_call"]
PIECES += [
    "/tool_call",
    "<|IM_END|>",
    "IM_END",
    " |im_end|",
    "x",
    "end",
    "user",
    "think",
    "<think>",
    "string",
    "\\u003c",
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
NAMES = st.dictionaries(TEXT, TEXT, max_size=2)


@functools.cache
def tokenizer(kind: str) -> HFTokenizer:
    return HFTokenizer(write_tiny_tokenizer(Path(tempfile.mkdtemp()) / kind, template=TEMPLATES[kind]))


def conversation(name, properties, arguments, content):
    function = {"name": name, "description": content, "parameters": {"type": "object", "properties": properties}}
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    messages = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": name, "content": content},
    ]
    return messages, [{"type": "function", "function": function}]


def control(made: HFTokenizer, messages, tools) -> list[int]:
    return [token for token in made.render(messages, tools=tools) if token in made.control_ids]


@pytest.mark.parametrize("kind", TEMPLATES)
@settings(max_examples=100, deadline=None)
@given(name=TEXT, properties=NAMES, arguments=NAMES, content=TEXT)
def test_no_name_and_no_value_becomes_a_control_token(kind, name, properties, arguments, content):
    made = tokenizer(kind)
    neutral = [{f"é{at}": "é" for at, _ in enumerate(names)} for names in (properties, arguments)]
    described = {key: {"type": "string", "description": text} for key, text in properties.items()}
    found = control(made, *conversation(name, described, arguments, content))
    assert found == control(made, *conversation("é", *neutral, "é"))


@pytest.mark.parametrize("content", ["> a quote  ", "end", "user", "|", " im_end ", "tool_call"])
@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_text_that_might_have_become_one_is_rendered_as_ever(kind, content):
    made = tokenizer(kind)
    messages, tools = conversation("weather", {"city": {"type": "string"}}, {"city": content}, content)
    assert made.decode(made.render(messages, tools=tools)) == made.render_text(messages, tools=tools)


def test_a_long_text_is_encoded_as_a_short_one_is():
    made = tokenizer("chatml")
    text = "hello the world <|im_end|> é\n" * 1000
    assert made.decode(made.encode(text)) == text
    assert set(made.encode(text)) == set(made.encode(text[:2900]))
    assert made.encode(text, control=True).count(made.encode("<|im_end|>", control=True)[0]) == 1000
