"""The openai package, chat completions."""

import json

import openai
from common import ANSWER, QUESTION, light, main, require, require_loop
from pydantic import BaseModel

MODEL = "scripted"
USER = [{"role": "user", "content": QUESTION}]
PARAMETERS = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
TOOLS = [{"type": "function", "function": {"name": "light", "parameters": PARAMETERS}}]


class Mood(BaseModel):
    mood: str


def client(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)


def answer(url):
    done = client(url).chat.completions.create(model=MODEL, messages=USER)
    require(done.choices[0].message.content, ANSWER)


def stream(url):
    chunks = client(url).chat.completions.create(model=MODEL, messages=USER, stream=True)
    require("".join(chunk.choices[0].delta.content or "" for chunk in chunks), ANSWER)


def loop(url, streamed=False):
    messages, text = list(USER), ""
    while True:
        options = {"model": MODEL, "messages": messages, "tools": TOOLS}
        if streamed:
            with client(url).chat.completions.stream(**options) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = client(url).chat.completions.create(**options).choices[0].message
        text += message.content or ""
        messages.append(message)
        if not message.tool_calls:
            return require_loop(text)
        for call in message.tool_calls:
            result = light(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def form(url):
    done = client(url).chat.completions.parse(model=MODEL, messages=USER, response_format=Mood)
    require(done.choices[0].message.parsed, Mood(mood="bad"))


def evidence(url):
    extra = {"agentform": {"evidence": True}}
    done = client(url).chat.completions.create(model=MODEL, messages=USER, tools=TOOLS, logprobs=True, extra_body=extra)
    require(done.choices[0].message.model_extra["agentform"]["decision"]["value"], None)
    require("".join(token.token for token in done.choices[0].logprobs.content), ANSWER)


main(
    answer=answer,
    stream=stream,
    loop=loop,
    streamed_loop=lambda url: loop(url, streamed=True),
    form=form,
    evidence=evidence,
)
