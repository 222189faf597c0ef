"""What is learned of a chat template, and what comes of templates that cannot be learned."""

from __future__ import annotations

import pytest

from agentform.decoding.formats.parse import parse_calls
from agentform.decoding.formats.signatures import DEFAULT_FORMAT
from agentform.decoding.formats.types import Elements, JsonObject, Slot
from agentform.decoding.tool_format import call_text, learn_format, new_call_id
from agentform.errors import InvalidRequest
from agentform.runtime.tokenizer.chat_template import ChatTemplate
from tests.support.call_templates import CALL_TEMPLATES, CALLS, THINKING_TEMPLATES, template
from tests.support.tiny_tokenizer import CHATML


def learn(source):
    return learn_format(ChatTemplate({"default": source}, {"bos_token": "<s>", "eos_token": "<|im_end|>"}))


def test_a_json_object_between_marks_is_read_off_the_template():
    format = learn(CALL_TEMPLATES["a JSON object between marks"])
    layout = format.layout
    assert layout.call == ('<tool_call>\n{"name": "', Slot.NAME, '", "arguments": ', Slot.ARGUMENTS, "}\n</tool_call>")
    assert (layout.before, layout.before_after_text, layout.between, layout.max_calls) == ("", "\n", "\n", None)
    assert (format.marks, format.turn_end) == (("<tool_call>",), "<|im_end|>")


def test_a_template_that_refuses_a_second_call_allows_one():
    assert learn(CALL_TEMPLATES["a bare JSON object, one a turn"]).layout.max_calls == 1


def test_ids_have_the_form_that_the_template_asks_for():
    nine = learn(CALL_TEMPLATES["a JSON list with ids of nine"])
    assert len(new_call_id(nine, "find", 0)) == 9
    assert new_call_id(nine, "find", 0).isalnum()
    numbered = learn(CALL_TEMPLATES["ids of name and number"])
    assert new_call_id(numbered, "find", 3) == "functions.find:3"


def test_the_spacing_of_json_is_learned():
    compact = learn(CALL_TEMPLATES["a compact object, keys sorted"]).arguments
    assert isinstance(compact, JsonObject)
    assert compact.values.write({"b": 1, "a": [1, 2]}) == '{"a":[1,2],"b":1}'
    indented = learn(CALL_TEMPLATES["an indented object"]).arguments
    assert isinstance(indented, JsonObject)
    assert indented.values.write({"a": 1}) == '{\n    "a": 1\n}'


def test_elements_are_learned_with_what_stands_around_strings():
    style = learn(CALL_TEMPLATES["elements that say what is a string"]).arguments
    assert isinstance(style, Elements)
    assert (style.open, style.string_middle, style.middle) == (
        '<parameter name="',
        '" string="true">',
        '" string="false">',
    )
    assert (style.close, style.separator, style.says_strings) == ("</parameter>\n", "", True)
    assert learn(CALL_TEMPLATES["keywords"]).style == "keyword arguments"


def test_a_model_without_tools_gets_the_default_format_and_a_reason():
    format = learn(CHATML)
    assert not format.native
    assert format.layout == DEFAULT_FORMAT.layout
    assert "knows no tools" in format.reason


@pytest.mark.parametrize(
    "source",
    [
        "",
        "{% if %}",
        "{{ raise_exception('never') }}",
        "{{ messages[0].nothing.more }}",
        "{{ tools }}{% for m in messages %}{{ m.content }}{{ m.tool_calls }}{% endfor %}",
        "{% for m in messages %}{{ m.content + 1 }}{% endfor %}",
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}{% endfor %}",
        template("{{ message.tool_calls | length }}"),
        template("{{ message.tool_calls[0].function.name }}"),
        template("{{ message.tool_calls[0].function.arguments | tojson }}"),
        template(
            "{% for c in message.tool_calls %}{{ c.function.name | upper }}({{ c.function.arguments }}){% endfor %}"
        ),
    ],
)
def test_a_template_that_cannot_be_learned_gets_the_default_format_and_a_reason(source):
    format = learn(source)
    assert not format.native
    assert format.reason


def test_a_template_that_is_broken_in_every_way_raises_nothing():
    class Broken:
        template_source = "x"

        def render_text(self, messages, **options):
            raise RuntimeError("not even an error of ours")

    assert "not even an error of ours" in learn_format(Broken()).reason


def test_a_template_that_lists_tools_but_writes_no_calls_is_known_by_its_marks():
    source = CHATML.replace(
        "{% for message", "{% if tools %}{{ tools | tojson }} <|tool_call|>{% endif %}{% for message", 1
    )
    format = learn(source)
    assert format.native
    assert not format.renders_calls
    assert format.layout.section_open == "<|tool_call|>["


def test_a_template_may_fill_lists_of_its_own_but_not_those_it_was_given():
    own = (
        "{% set ns = namespace(ids=[]) %}{% for m in messages %}{% set _ = ns.ids.append(m.role) %}{% endfor %}"
        "{{ ns.ids }}"
    )
    asked = [{"role": "user", "content": "x"}]
    assert ChatTemplate({"default": own}, {}).render(asked, None, generation_prompt=True) == "['user']"
    with pytest.raises(InvalidRequest, match="unsafe"):
        ChatTemplate({"default": "{{ messages.append(1) }}"}, {}).render(asked, None, generation_prompt=True)
    with pytest.raises(InvalidRequest, match="unsafe"):
        ChatTemplate({"default": "{{ tools[0].a.append(1) }}"}, {}).render(asked, [{"a": []}], generation_prompt=True)


def test_the_marks_of_thoughts_are_learned():
    switch = learn(THINKING_TEMPLATES["a switch that closes the thought"]).reasoning
    assert (switch.open, switch.close, switch.before_text, switch.kept) == (
        "<think>\n",
        "\n</think>",
        "\n\n",
        "tool calls",
    )
    assert switch.switches == ("enable_thinking",)
    assert not switch.is_open
    opened = learn(THINKING_TEMPLATES["a thought that the prompt opens"]).reasoning
    assert opened.is_open
    assert learn(template(CALLS["keywords"])).reasoning is None
    harmony = learn(CALL_TEMPLATES["channels"]).reasoning
    assert (harmony.open, harmony.close) == ("<|channel|>analysis<|message|>", "<|end|>")


def test_calls_are_learned_though_the_template_lists_no_tools():
    source = template(CALLS["keywords"]).replace("{% if tools %}", "{% if false %}", 1)
    format = learn(source)
    assert (format.native, format.lists_tools) == (True, False)


def test_strings_that_nothing_ends_are_no_format_of_calls():
    unended = "{{ '[' + f.name + '(' }}{% for key, value in f.arguments.items() %}{{ key + ': ' + value | string }}"
    source = template(f"{{% set f = message.tool_calls[0].function %}}{unended}{{% endfor %}}{{{{ ')]' }}}}")
    format = learn_format(ChatTemplate({"default": source}, {"bos_token": "", "eos_token": "<|im_end|>"}))
    assert not format.native
    assert "without a mark at their end" in format.reason


def test_keywords_whose_quotes_the_template_forgets_are_given_to_it_as_text():
    source = template(
        "{{ '[' }}{% for call in message.tool_calls %}{% set f = call.function %}{{ f.name + '(' }}"
        "{% for key in f.arguments %}{{ key + '=' }}{{ '%s' | format(f.arguments[key]) }}"
        "{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}{{ ')' }}"
        "{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}{{ ']' }}"
    )
    format = learn(source)
    assert (format.native, format.renders_calls, format.style) == (True, False, "keyword arguments")
    assert call_text(format, "find", {"a": 'the "best"', "b": [True, "x"]}) == (
        '[find(a="the \\"best\\"", b=[True, \'x\'])]'
    )
    assert format.marks == ()  # a bracket alone does not say that a call begins


def test_a_name_that_stands_twice_is_written_twice_and_read_once():
    format = learn(CALL_TEMPLATES["the name twice"])
    assert format.layout.call.count(Slot.NAME) == 2
    assert format.marks == ('<invoke name="',)
    written = call_text(format, "find", {"a": "x"})
    assert parse_calls(format, written, {"find": {}}).calls[0].name == "find"
    assert not parse_calls(format, written.replace("to=find", "to=look"), {"find": {}, "look": {}}).calls


def test_an_opening_that_stands_in_front_of_every_turn_is_the_mark_of_its_thoughts():
    source = template(
        CALLS["types in attributes, calls numbered from one"],
        before="{{ '<|open|>think<|sep|>' + (message.reasoning_content or '') + '<|close|>think<|sep|>' }}",
        prompt="{{ '<|open|>think<|sep|>' }}",
    )
    marks = learn(source).reasoning
    assert (marks.open, marks.close, marks.is_open) == ("<|open|>think<|sep|>", "<|close|>think<|sep|>", True)
    closed = learn(
        source.replace(
            "{{ '<|open|>think<|sep|>' }}{% endif %}",
            "{{ '<|open|>think<|sep|>' }}{{ '<|close|>think<|sep|>' }}{% endif %}",
        )
    ).reasoning
    assert (closed.open, closed.is_open) == ("<|open|>think<|sep|>", False)
