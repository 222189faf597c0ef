"""Small chat templates, one for each way in which known families of models write calls."""

from __future__ import annotations

__all__ = ["CALLS", "CALL_TEMPLATES", "THINKING_TEMPLATES", "template"]

_HEAD = (
    "{{- bos_token }}{% if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endif %}{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
)
_TAIL = (
    "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}PROMPT{% endif %}"
)


def template(calls: str, *, before: str = "", prompt: str = "", content: str = "{{ message.content }}") -> str:
    """ChatML with `calls` as what writes a message's calls, `before` before an assistant's content."""
    assistant = f"{{% if message.role == 'assistant' %}}{before}{{% endif %}}{content}"
    body = f"{assistant}{{% if message.tool_calls %}}{calls}{{% endif %}}"
    return _HEAD + body + _TAIL.replace("PROMPT", prompt)


_EACH = "{% for call in message.tool_calls %}{% set f = call.function %}"
_ITEMS = "{% for key, value in f.arguments.items() %}"
_JSON = "{{ '{\"name\": \"' + f.name + '\", \"arguments\": ' }}{{ f.arguments | tojson }}{{ '}' }}"
_COMMA = "{% if not loop.last %}{{ ', ' }}{% endif %}"
_RAW = "{% if value is string %}{{ value }}{% else %}{{ value | tojson }}{% endif %}"
_GEMMA = (
    "{% macro show(v) %}{% if v is string %}{{ '<|\"|>' + v + '<|\"|>' }}{% elif v is boolean %}"
    "{{ 'true' if v else 'false' }}{% elif v is mapping %}{{ '{' }}{% for k, w in v | dictsort %}{{ k }}:{{ show(w) }}"
    "{% if not loop.last %}{{ ',' }}{% endif %}{% endfor %}{{ '}' }}{% elif v is sequence %}{{ '[' }}{% for w in v %}"
    "{{ show(w) }}{% if not loop.last %}{{ ',' }}{% endif %}{% endfor %}{{ ']' }}{% else %}{{ v }}{% endif %}"
    "{% endmacro %}"
)

_TAGS = (
    "{% macro tags(v) %}{% if v is mapping %}{% for k, w in v.items() if w is not none %}"
    "{{ '~<' + k + '>' }}{{ tags(w) }}{{ '~</' + k + '>' }}{% endfor %}"
    "{% elif v is iterable and v is not string %}{% for w in v %}"
    "{{ '~<item>' }}{{ tags(w) }}{{ '~</item>' }}{% endfor %}"
    "{% elif v is none %}{% elif v is boolean %}{{ v | tojson }}{% else %}{{ v }}{% endif %}{% endmacro %}"
)
_TYPE = (
    "{% if value is boolean %}boolean{% elif value is none %}null{% elif value is number %}number"
    "{% elif value is string %}string{% elif value is mapping %}object{% else %}array{% endif %}"
)

CALLS: dict[str, str] = {
    "a JSON object between marks": _EACH
    + "{% if not loop.first or message.content %}{{ '\\n' }}{% endif %}{{ '<tool_call>\\n' }}"
    + _JSON
    + "{{ '\\n</tool_call>' }}{% endfor %}",
    "a bare JSON object, one a turn": "{% if message.tool_calls | length > 1 %}{{ raise_exception('one call') }}"
    "{% endif %}{% set f = message.tool_calls[0].function %}"
    "{{ '{\"name\": \"' + f.name + '\", \"parameters\": ' }}{{ f.arguments | tojson }}{{ '}' }}",
    "a JSON list with ids of nine": "{{ '[TOOL_CALLS][' }}"
    + _EACH
    + "{% if call.id | length != 9 %}{{ raise_exception('nine letters') }}{% endif %}"
    + '{{ \'{"name": "\' + f.name + \'", "arguments": \' }}{{ f.arguments | tojson }}'
    + "{{ ', \"id\": \"' + call.id + '\"}' }}"
    + _COMMA
    + "{% endfor %}{{ ']' }}",
    "a name and an object between marks": _EACH
    + "{{ '[TOOL_CALLS]' + f.name + '[CALL_ID]' + call.id + '[ARGS]' }}{{ f.arguments | tojson }}{% endfor %}",
    "a JSON list between marks": "{{ '<TOOLCALL>[' }}" + _EACH + _JSON + _COMMA + "{% endfor %}{{ ']</TOOLCALL>' }}",
    "numbered calls": "{{ '<|START_ACTION|>[\\n' }}"
    + _EACH
    + '{{ \'    {"tool_call_id": "\' + loop.index0 | string + \'", "tool_name": "\' + f.name + \'", "parameters": \' }}'
    "{{ f.arguments | tojson }}{{ '}' }}{% if not loop.last %}{{ ',\\n' }}{% endif %}{% endfor %}"
    "{{ '\\n]<|END_ACTION|>' }}",
    "an object in a fence": "{{ '<｜calls▁begin｜>' }}"
    + _EACH
    + "{{ '<｜call▁begin｜>function<｜sep｜>' + f.name + '\\n```json\\n' }}{{ f.arguments | tojson }}"
    "{{ '\\n```<｜call▁end｜>' }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}{{ '<｜calls▁end｜>' }}",
    "ids of name and number": "{{ '<|section_begin|>' }}"
    + _EACH
    + "{{ '<|call_begin|>functions.' + f.name + ':' + loop.index0 | string + '<|argument_begin|>' }}"
    "{{ f.arguments | tojson }}{{ '<|call_end|>' }}{% endfor %}{{ '<|section_end|>' }}",
    "the name as a key": "{{ '<|prefix|>[' }}"
    + _EACH
    + "{{ '{\"' + f.name + '\": ' }}{{ f.arguments | tojson }}{{ '}' }}"
    + _COMMA
    + "{% endfor %}{{ ']<|suffix|>' }}",
    "an indented object": "{{ 'Action:\\n' }}" + _EACH + "{{ f.name + '\\n' }}{{ f.arguments | tojson(indent=4) }}"
    "{{ '\\n' }}{% endfor %}",
    "a compact object, keys sorted": _EACH + "{{ '<call>' + f.name + '|' }}"
    "{{ f.arguments | tojson(separators=(',', ':'), sort_keys=True) }}{{ '</call>' }}{% endfor %}",
    "an element a parameter": _EACH
    + "{{ '\\n<tool_call>\\n<function=' + f.name + '>\\n' }}"
    + _ITEMS
    + "{{ '<parameter=' + key + '>\\n' }}{% if value is mapping or (value is sequence and value is not string) %}"
    "{{ value | tojson }}{% else %}{{ value | string }}{% endif %}{{ '\\n</parameter>\\n' }}{% endfor %}"
    "{{ '</function>\\n</tool_call>' }}{% endfor %}",
    "an element a key and a value": _EACH
    + "{{ '<tool_call>' + f.name + '\\n' }}"
    + _ITEMS
    + "{{ '<arg_key>' + key + '</arg_key>\\n<arg_value>' }}"
    + _RAW
    + "{{ '</arg_value>\\n' }}{% endfor %}{{ '</tool_call>' }}{% endfor %}",
    "an element right after the name": _EACH
    + "{{ '<tool_call>' + f.name }}"
    + _ITEMS
    + "{{ '<arg_key>' + key + '</arg_key><arg_value>' }}"
    + _RAW
    + "{{ '</arg_value>' }}{% endfor %}{{ '</tool_call>' }}{% endfor %}",
    "elements that say what is a string": "{{ '<calls>\\n' }}"
    + _EACH
    + "{{ '<invoke name=\"' + f.name + '\">\\n' }}"
    + _ITEMS
    + "{{ '<parameter name=\"' + key + '\" string=\"' + ('true' if value is string else 'false') + '\">' }}"
    + _RAW
    + "{{ '</parameter>\\n' }}{% endfor %}{{ '</invoke>\\n' }}{% endfor %}{{ '</calls>' }}",
    "keywords": "{{ '<|call_start|>[' }}"
    + _EACH
    + "{{ f.name + '(' }}"
    + _ITEMS
    + "{{ key + '=' }}{% if value is string %}{{ \"'\" + value + \"'\" }}{% elif value is mapping %}"
    "{{ value | tojson }}{% else %}{{ value | string }}{% endif %}"
    + _COMMA
    + "{% endfor %}{{ ')' }}"
    + _COMMA
    + "{% endfor %}{{ ']<|call_end|>' }}",
    "bare keys and quoted strings": _GEMMA
    + _EACH
    + "{{ '<|tool_call>call:' + f.name + '{' }}{% for key, value in f.arguments | dictsort %}"
    "{{ key }}:{{ show(value) }}{% if not loop.last %}{{ ',' }}{% endif %}{% endfor %}"
    "{{ '}<tool_call|>' }}{% endfor %}",
    "types in attributes, calls numbered from one": "{{ '<|open|>calls<|sep|>' }}"
    + _EACH
    + "{{ '<|open|>call tool=\"' + f.name + '\" index=\"' + loop.index | string + '\"<|sep|>' }}"
    + _ITEMS
    + "{{ '<|open|>argument key=\"' + key + '\" type=\"' }}"
    + _TYPE
    + "{{ '\"<|sep|>' }}"
    + _RAW
    + "{{ '<|close|>argument<|sep|>' }}{% endfor %}{{ '<|close|>call<|sep|>' }}{% endfor %}"
    "{{ '<|close|>calls<|sep|>' }}",
    "strings in a CDATA section": _EACH
    + "{{ '<function name=\"' + f.name + '\">' }}"
    + _ITEMS
    + "{{ '<param name=\"' + key + '\">' }}"
    "{% if value is string and ('<' in value or '&' in value or '\n' in value) %}{{ '<![CDATA[' + value + ']]>' }}"
    "{% else %}{{ value }}{% endif %}{{ '</param>' }}{% endfor %}{{ '</function>' }}{% endfor %}",
    "tags within tags, nulls left out": _TAGS
    + "{{ '~<calls>\n' }}"
    + _EACH
    + "{{ '~<invoke name=\"' + f.name + '\">' }}{{ tags(f.arguments) }}{{ '~</invoke>\n' }}{% endfor %}"
    "{{ '~</calls>' }}",
    "arguments that must be text": _EACH + "{{ '<call>' + f.name + '\\n' + f.arguments + '</call>' }}{% endfor %}",
}
"""What writes the calls of a message, by what is particular about it."""

_HARMONY = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}{% for message in messages %}"
    "{% if message.role == 'assistant' %}{% if message.tool_calls %}{% set f = message.tool_calls[0].function %}"
    "{% if message.reasoning_content %}{{ '<|start|>assistant<|channel|>analysis<|message|>'"
    " + message.reasoning_content + '<|end|>' }}{% endif %}"
    "{{ '<|start|>assistant to=functions.' + f.name + '<|channel|>commentary json<|message|>' }}"
    "{{ f.arguments | tojson }}{{ '<|call|>' }}{% else %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}{% endif %}"
    "{% elif message.role == 'tool' %}"
    "{{ '<|start|>functions to=assistant<|channel|>commentary<|message|>' + message.content + '<|end|>' }}"
    "{% else %}{{ '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
_NAMED_TURNS = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}{% for message in messages %}"
    "{{ '<|head|>' + message.role + '<|/head|>\\n\\n' }}{% if message.role == 'assistant' %}{{ '>>>' }}"
    "{% if message.content %}{{ 'all\\n' + message.content }}{% endif %}"
    "{% for call in message.tool_calls or [] %}{% if message.content or not loop.first %}{{ '>>>' }}{% endif %}"
    "{{ call.function.name + '\\n' + call.function.arguments }}{% endfor %}"
    "{% else %}{{ message.content }}{% endif %}{{ '<|eot|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|head|>assistant<|/head|>\\n\\n>>>' }}{% endif %}"
)

_NAMED_TWICE = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}{% for message in messages %}"
    "{% if message.role == 'assistant' and message.tool_calls %}{% for call in message.tool_calls %}"
    "{% set f = call.function %}{{ '<|start|>assistant to=' + f.name + '<|message|><invoke name=\"' + f.name + '\">' }}"
    "{% for key, value in f.arguments.items() %}{{ '<parameter name=\"' + key + '\">' }}"
    "{% if value is string %}{{ value }}{% else %}{{ value | tojson }}{% endif %}{{ '</parameter>' }}{% endfor %}"
    "{{ '</invoke>' }}{{ '<|end|>' if loop.last else '<|next|>' }}{% endfor %}"
    "{% elif message.role == 'assistant' %}"
    "{{ '<|start|>assistant to=user<|message|>' + message.content + '<|end|>' }}"
    "{% else %}{{ '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)

CALL_TEMPLATES: dict[str, str] = {
    **{name: template(calls) for name, calls in CALLS.items()},
    "channels": _HARMONY,
    "a name and then an object": _NAMED_TURNS,
    "the name twice": _NAMED_TWICE,
}

_THOUGHT = (
    "{% if loop.index0 > ns.last and message.reasoning_content %}"
    "{{ '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}"
)
_LAST = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}"
)

THINKING_TEMPLATES: dict[str, str] = {
    "a switch that closes the thought": _LAST
    + template(
        CALLS["a JSON object between marks"],
        before=_THOUGHT,
        prompt="{% if enable_thinking is defined and not enable_thinking %}"
        "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}",
    ),
    "a thought that the prompt opens": _LAST
    + template(
        CALLS["an element a parameter"],
        before="{% if loop.index0 > ns.last %}"
        "{{ '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n\\n' }}{% endif %}",
        prompt="{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}"
        "{% else %}{{ '<think>\\n' }}{% endif %}",
    ),
}
