"""SGLang's own chat endpoint renders a conversation as agentform does, token for token, in every style of calls.

The endpoint runs here without a server: all that it needs of one is a tokenizer, and what is known of the template.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentform.decoding.tool_format import ToolText, conversation, learn_format
from agentform.messages import Message, ToolCall, ToolResult
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema.target import load
from tests.support.call_templates import CALL_TEMPLATES, THINKING_TEMPLATES
from tests.support.tiny_tokenizer import write_tiny_tokenizer

OF_TEXT = ("arguments that must be text", "a name and then an object")
"""Templates that SGLang's endpoint cannot render: it gives every template arguments as objects."""
TOOL = ToolText(
    name="weather",
    description="Says how it is.",
    form=load({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}).form,
)


def messages(format):
    id = "a1b2c3d4e"
    call = ToolCall(id=id, name="weather", arguments={"city": 'Łódź "old"', "days": 3})
    result = ToolResult(call_id=id, name="weather", content="It rains.")
    text = "One moment." if format.rules.content_with_calls else ""
    return [
        Message(role="user", content="How is it <b>there</b>?"),
        Message(role="assistant", content=text, calls=(call,), reasoning="I look it up."),
        Message(role="tool", content="It rains.", result=result),
        Message(role="assistant", content="It rains.", reasoning="Now I know."),
        Message(role="user", content="And later?"),
    ]


def sglang_ids(folder, prompt):
    """What SGLang's chat endpoint makes of the messages of a request."""
    protocol = pytest.importorskip("sglang.srt.entrypoints.openai.protocol")
    serving_chat = pytest.importorskip("sglang.srt.entrypoints.openai.serving_chat")
    from transformers import AutoTokenizer

    chat = object.__new__(serving_chat.OpenAIServingChat)
    chat.tokenizer_manager = SimpleNamespace(tokenizer=AutoTokenizer.from_pretrained(folder), served_model_name="tiny")
    chat.template_manager = SimpleNamespace(
        jinja_template_content_format="string", jinja_template_may_reorder_tool_results=False, reasoning_config=None
    )
    chat.chat_encoding_spec = None
    chat._tokenizer_auto_adds_specials = True
    chat._prompt_text_round_trip_is_lossy = False
    request = protocol.ChatCompletionRequest(
        model="tiny", messages=prompt.messages, chat_template_kwargs=prompt.arguments
    )
    return tuple(chat._apply_jinja_template(request, prompt.tools, False).prompt_ids)


@pytest.mark.parametrize("arguments", [{}, {"enable_thinking": False}], ids=["as it is", "without a thought"])
@pytest.mark.parametrize("name", THINKING_TEMPLATES)
def test_sglang_renders_thoughts_as_agentform_does(tmp_path, name, arguments):
    check(tmp_path, THINKING_TEMPLATES[name], arguments)


@pytest.mark.parametrize("name", [name for name in CALL_TEMPLATES if name not in OF_TEXT])
def test_sglang_renders_calls_as_agentform_does(tmp_path, name):
    check(tmp_path, CALL_TEMPLATES[name], {})


def check(tmp_path, template, arguments):
    folder = write_tiny_tokenizer(tmp_path, template=template)
    tokenizer = HFTokenizer(folder)
    format = learn_format(tokenizer)
    assert format.native
    prompt = conversation(format, messages(format), instructions="Be brief.", tools=[TOOL], arguments=arguments)
    assert sglang_ids(folder, prompt) == prompt.ids(tokenizer)
