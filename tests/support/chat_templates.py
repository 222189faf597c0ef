"""Small chat templates that use what those of known model families use of Jinja."""

from __future__ import annotations

__all__ = ["TEMPLATES"]

_LLAMA = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" + system_message + eos_token }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + eos_token }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' + (call.arguments | tojson) + "}" }}
        {%- for name, value in call.arguments | items %}
            {{- name + '="' + value | string + '"' }}
            {%- if not loop.last %}{{- ", " }}{%- endif %}
        {%- endfor %}
    {%- elif message.content is mapping or message.content is iterable %}
        {{- message.content | tojson }}
    {%- endif %}
{%- endfor %}
{%- if tools is not none %}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
{%- endif %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
_QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n<tools>' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = message.reasoning_content if message.reasoning_content is string else '' %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if loop.index0 > ns.last_query_index and reasoning %}
            {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {%- if tool_call.arguments is string %}
                {{- tool_call.arguments }}
            {%- else %}
                {{- tool_call.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""
_MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
            {%- endfor %}
            {{- "] [/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {{- "[INST] " + message["content"] + "[/INST]" }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] in ("tool_results", "tool") %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + "}[/TOOL_RESULTS]" }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, not " + message.role) }}
    {%- endif %}
{%- endfor %}
"""
_GENERATION = """{% for message in messages %}
    {% if message.role == 'assistant' %}
        {% generation %}
            {% set kept = message.content %}
        <|assistant|>{{ kept }}{{ eos_token }}
        {%- endgeneration %}
        {{ kept is defined }}
    {% else %}
<|{{ message.role }}|>{{ message.content }}
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{%- generation -%} {{ messages | length }} {%- endgeneration -%}
{% endif %}
"""
_LOOPS = """{% for message in messages %}
{% if message.role == 'system' %}{% continue %}{% endif %}
{% if loop.index > 3 %}{% break %}{% endif %}
    {{ loop.index }} {{ message.content }}
{% endfor %}
"""
_MACROS = """{%- macro typed(schema) -%}
    {%- if schema.type == "object" -%}
        { {%- for name, part in (schema.properties or {}) | dictsort %} {{ name }}: {{ typed(part) }},{% endfor -%} }
    {%- elif schema.type == "array" -%}
        {{ typed(schema['items'] or {}) }}[]
    {%- elif schema.enum is defined -%}
        {{ schema.enum | map("tojson") | join(" | ") }}
    {%- else -%}
        {{ schema.type or "any" }}
    {%- endif -%}
{%- endmacro -%}
{% for tool in tools or [] %}
// {{ tool.function.description | e }}
type {{ tool.function.name }} = (_: {{ typed(tool.function.parameters or {}) }}) => any;
{% endfor %}
{% for message in messages -%}
    <|{{ message.role }}|>{{ message.thinking or "" }}<|message|>{{ message.content }}
{%- endfor %}
"""
_EVERYTHING = """{{ messages }} {{ tools }}
  {{ messages | tojson }}
{{ tools | tojson(ensure_ascii=true, indent=2, separators=(",", " : "), sort_keys=true) }}
{{ documents is none }} {{ documents is defined }} {{ unheard_of is defined }} {{ add_generation_prompt }}
{{ dict(a=1, **{"b": 2}) }} {{ dict.fromkeys(["x"], 3) | tojson }} {{ range(3) | list }} {{ "<é>" | tojson }}
{%- set kept = namespace(self="s", a=[1]) %}{% set kept.b = kept.self + 't' %}{{ kept.a }}{{ kept.b }}
{# a comment #}
{{ 1.5 }} {{ none }} {{ true }} {{ 'a' ~ 1 }} {{ "%s-%d" | format("x", 3) }} {{ bos_token }}{{ pad_token }}
"""

TEMPLATES = {
    "llama": _LLAMA,
    "qwen": _QWEN,
    "mistral": _MISTRAL,
    "generation": _GENERATION,
    "loops": _LOOPS,
    "macros": _MACROS,
    "everything": _EVERYTHING,
}
"""By the family in whose style they are, or by what they use."""
