"""What a template demands of messages is found when it is loaded, and messages are adapted to it."""

from __future__ import annotations

import pytest

from agentform.decoding.formats.probe import Probe
from agentform.decoding.formats.rules import adapt_messages, learn_rules
from agentform.decoding.formats.types import TemplateRules
from agentform.decoding.tool_format import ToolText, conversation, learn_format
from agentform.messages import Message
from agentform.runtime.tokenizer.chat_template import ChatTemplate
from agentform.schema.target import load
from tests.support.call_templates import CALL_TEMPLATES, CALLS, template
from tests.support.tiny_tokenizer import CHATML

NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
SYSTEM_FIRST = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('first') }}{% endif %}"
    "{% endfor %}" + CHATML
)
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('in turn') }}"
    "{% endif %}{% endfor %}" + CHATML
)
PARTS = CHATML.replace("message['content']", "message['content'][0]['text']")


def template_of(source):
    return ChatTemplate({"default": source}, {"bos_token": "", "eos_token": "<|im_end|>"})


def rules_of(source):
    return learn_rules(Probe(template_of(source)))


def test_each_rule_is_found():
    assert rules_of(CHATML).system == "any"
    assert rules_of(NO_SYSTEM).system == "none"
    assert rules_of(SYSTEM_FIRST).system == "first"
    assert rules_of(ALTERNATING).alternating
    assert rules_of(ALTERNATING).user_first
    assert rules_of(PARTS).content == "parts"
    assert rules_of(CALL_TEMPLATES["a JSON list with ids of nine"]).ids == "nine"


def test_tools_that_are_listed_only_beside_a_system_message_get_one():
    source = CALL_TEMPLATES["an element a parameter"].replace("{% if tools %}", "{% if tools and SYSTEM %}", 1)
    source = source.replace("SYSTEM", "messages[0].role == 'system'")
    format = learn_format(template_of(source))
    assert (format.native, format.lists_tools, format.rules.tools_with_system) == (True, True, True)
    tool = ToolText(name="find", description="", form=load({"type": "object"}, name="find").form)
    asked = [Message(role="user", content="Hello?")]
    [head, _] = conversation(format, asked, tools=[tool]).messages
    assert head["role"] == "system"
    assert len(conversation(format, asked).messages) == 1
    own = conversation(format, asked, instructions="Be brief.", tools=[tool]).messages[0]
    assert own["content"] == "Be brief."


def test_a_template_that_needs_thoughts_gets_empty_ones():
    need = (
        "{% if message.role == 'assistant' and message.reasoning_content is not defined %}"
        "{{ raise_exception('a thought is missing') }}{% endif %}"
    )
    source = CALL_TEMPLATES["keywords"].replace("{{ message.content }}", need + "{{ message.content }}")
    format = learn_format(template_of(source))
    assert (format.native, format.rules.thoughts_needed) == (True, True)
    said = [Message(role="user", content="Hello?"), Message(role="assistant", content="Yes.")]
    prompt = conversation(format, said)
    assert [message.get("reasoning_content") for message in prompt.messages] == [None, ""]
    assert "Yes." in template_of(source).render_text(prompt.messages, tools=None)


def test_results_become_words_of_the_user_where_the_template_wants_a_call_before_them():
    source = CHATML.replace(
        "{% for message in messages %}",
        "{% if tools %}{{ tools | tojson }} <|tool_call|>{% endif %}{% for message in messages %}"
        "{% if message.role == 'tool' and not messages[loop.index0 - 1].tool_calls %}"
        "{{ raise_exception('a call is missing') }}{% endif %}",
        1,
    )
    format = learn_format(template_of(source))
    assert (format.renders_calls, format.rules.tool_role) == (False, False)


def test_an_id_that_is_written_in_part_is_made_as_long_as_that_part():
    whole = CALL_TEMPLATES["a JSON list with ids of nine"].replace("call.id | length != 9", "call.id | length < 9")
    cut = whole.replace("call.id + ", "call.id[-9:] + ")
    assert rules_of(whole).ids == "any"
    assert rules_of(cut).ids == "nine"


def test_arguments_are_given_as_the_template_takes_them():
    assert learn_format(template_of(CALL_TEMPLATES["arguments that must be text"])).rules.arguments == "text"
    assert learn_format(template_of(CALL_TEMPLATES["keywords"])).rules.arguments == "object"


@pytest.mark.parametrize("source", [CHATML, NO_SYSTEM, SYSTEM_FIRST, ALTERNATING, PARTS])
def test_whatever_the_template_demands_a_conversation_is_rendered_whole(source):
    format = learn_format(template_of(source))
    messages = [
        Message(role="user", content="First."),
        Message(role="user", content="Second."),
        Message(role="assistant", content="Third."),
        Message(role="system", content="Fourth."),
        Message(role="assistant", content="Fifth."),
        Message(role="user", content="Sixth."),
    ]
    prompt = conversation(format, messages, instructions="Zeroth.")
    text = template_of(source).render_text(prompt.messages, tools=prompt.tools, arguments=prompt.arguments)
    words = ["Zeroth", "First", "Second", "Third", "Fourth", "Fifth", "Sixth"]
    assert [text.count(word) for word in words] == [1] * 7
    assert sorted(words, key=text.index) == words


def test_a_parameter_gets_a_description_where_the_template_needs_one():
    source = template(CALLS["keywords"]).replace(
        "{{ tool | tojson }}",
        "{{ tool.function.name }}{% for k, v in tool.function.parameters.properties.items() %}"
        "{{ k + ': ' + v.description }}{% endfor %}",
    )
    format = learn_format(template_of(source))
    assert format.rules.described
    form = load({"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": [1, 2]}}}, name="find").form
    tool = ToolText(name="find", description="Finds.", form=form)
    prompt = conversation(format, [Message(role="user", content="x")], tools=[tool])
    assert "finda: b: " in template_of(source).render_text(prompt.messages, tools=prompt.tools)


def test_tools_are_given_under_the_name_that_the_template_reads():
    source = template(CALLS["keywords"]).replace("if tools", "if custom_tools").replace("in tools", "in custom_tools")
    format = learn_format(template_of(source))
    assert (format.rules.tools_argument, format.native, format.lists_tools) == ("custom_tools", True, True)


def test_results_are_the_users_words_where_the_template_has_no_role_for_them():
    rules = TemplateRules(tool_role=False, alternating=True)
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "tool", "content": "c", "tool_call_id": "x"},
        {"role": "user", "content": "d"},
    ]
    adapted = adapt_messages(rules, messages)
    assert [m["role"] for m in adapted] == ["user", "assistant", "user"]
    assert "c\n</tool_response>\n\nd" in adapted[-1]["content"]


def test_ids_of_others_become_such_as_the_template_takes():
    rules = TemplateRules(ids="nine")
    call = {"id": "call_0123456789", "type": "function", "function": {"name": "f", "arguments": {}}}
    called, answered = adapt_messages(
        rules,
        [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "", "tool_call_id": "call_0123456789"},
        ],
    )
    assert len(called["tool_calls"][0]["id"]) == 9
    assert called["tool_calls"][0]["id"] == answered["tool_call_id"]
