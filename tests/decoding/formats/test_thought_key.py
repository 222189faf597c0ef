"""Under which key a template reads past thoughts is learned, and there they are given."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from agentform.cli.app import app
from agentform.decoding.tool_format import conversation, learn_format
from agentform.messages import Message, ToolCall
from agentform.runtime.tokenizer.chat_template import ChatTemplate
from tests.support.call_templates import CALLS, template

CALL = CALLS["a JSON list between marks"]
PARTS = (
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'thinking' %}{{ '[THINK]' + part.thinking + '[/THINK]' }}{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}"
)


def under(key):
    return "{% if message.KEY %}{{ '[THINK]' + message.KEY + '[/THINK]' }}{% endif %}".replace("KEY", key)


READS = {
    "reasoning_content": template(CALL, before=under("reasoning_content")),
    "thinking": template(CALL, before=under("thinking")),
    "reasoning": template(CALL, before=under("reasoning")),
    "own_thoughts": template(CALL, before=under("own_thoughts")),
    "thinking part": template(CALL, content=PARTS),
    None: template(CALL),
}
"""Small templates by where they read thoughts."""
# Only with calls under one key, everywhere under another.
MOSTLY = template(CALL, before=under("reasoning") + "{% if message.tool_calls %}" + under("thinking") + "{% endif %}")
ALWAYS_OPEN = template(
    CALL,
    before="{{ '<think>' }}{% if message.reasoning_content %}{{ '\\n' + message.reasoning_content + '\\n' }}{% endif %}"
    "{{ '</think>' }}",
    prompt="{{ '<think>\\n' }}",
)
CLOSED_UNLESS_TOLD = template(
    CALL,
    before="{% if message.reasoning %}{{ '<think>' + message.reasoning }}{% endif %}{{ '</think>' }}",
    prompt="{{ '<think>' if enable_thinking else '</think>' }}",
)


def rendered(source, messages):
    of_model = ChatTemplate({"default": source}, {"bos_token": "<s>", "eos_token": "<|im_end|>"})
    prompt = conversation(learn_format(of_model), messages)
    return of_model.render(prompt.messages, prompt.tools, generation_prompt=True)


def learned(source):
    return learn_format(ChatTemplate({"default": source}, {"bos_token": "<s>", "eos_token": "<|im_end|>"}))


@pytest.mark.parametrize("key", READS)
def test_the_key_of_thoughts_is_learned_and_they_are_given_under_it(key):
    assert learned(READS[key]).rules.thought_key == key
    call = ToolCall(id="a1b2c3d4e", name="find", arguments={"x": 1})
    said = [
        Message(role="user", content="Well?"),
        Message(role="assistant", content="", calls=(call,), reasoning="I look."),
        Message(role="assistant", content="There.", reasoning="Now I know."),
    ]
    text = rendered(READS[key], said)
    assert text.count("[THINK]I look.[/THINK]<TOOLCALL>") == (key is not None)
    assert text.count("[THINK]Now I know.[/THINK]There.") == (key is not None)
    assert "thinking" not in text


def test_of_several_keys_that_counts_under_which_most_is_shown():
    assert learned(MOSTLY).rules.thought_key == "reasoning"


@pytest.mark.parametrize("source", [ALWAYS_OPEN, CLOSED_UNLESS_TOLD])
def test_an_opening_mark_that_turns_without_thoughts_share_is_a_mark(source):
    marks = learned(source).reasoning
    assert (marks.open.strip(), marks.close.strip()) == ("<think>", "</think>")
    assert marks.is_open == (source is ALWAYS_OPEN)


def test_the_command_tells_the_key(tmp_path):
    (tmp_path / "chat_template.jinja").write_text(READS["thinking part"])
    done = CliRunner().invoke(app, ["models", "check", str(tmp_path), "--json"])
    data = json.loads(done.stdout)
    assert data["reasoning"]["key"] == data["rules"]["thought_key"] == "thinking part"
    assert "read from: thinking part" in CliRunner().invoke(app, ["models", "check", str(tmp_path)]).stdout
