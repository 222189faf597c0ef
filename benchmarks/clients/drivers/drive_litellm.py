"""LiteLLM, chat completions."""

import json

import litellm
from common import ANSWER, QUESTION, light, main, require, require_loop

USER = [{"role": "user", "content": QUESTION}]
PARAMETERS = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
TOOLS = [{"type": "function", "function": {"name": "light", "parameters": PARAMETERS}}]
MOOD = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}


def complete(url, **options):
    base = {"model": "openai/scripted", "api_base": url + "/v1", "api_key": "none", "num_retries": 0}
    return litellm.completion(**base | {"messages": USER} | options)


def answer(url):
    require(complete(url).choices[0].message.content, ANSWER)


def stream(url):
    require("".join(chunk.choices[0].delta.content or "" for chunk in complete(url, stream=True)), ANSWER)


def loop(url, streamed=False):
    messages, text = list(USER), ""
    while True:
        done = complete(url, messages=messages, tools=TOOLS, stream=streamed)
        if streamed:
            done = litellm.stream_chunk_builder(list(done), messages=messages)
        message = done.choices[0].message
        text += message.content or ""
        messages.append(message)
        if not message.tool_calls:
            return require_loop(text)
        for call in message.tool_calls:
            result = light(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def form(url):
    format = {"type": "json_schema", "json_schema": {"name": "Mood", "schema": MOOD}}
    require(json.loads(complete(url, response_format=format).choices[0].message.content), {"mood": "bad"})


main(answer=answer, stream=stream, loop=loop, streamed_loop=lambda url: loop(url, streamed=True), form=form)
