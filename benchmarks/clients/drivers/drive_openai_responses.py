"""The openai package, Responses."""

import json

import openai
from common import ANSWER, QUESTION, light, main, require, require_loop
from pydantic import BaseModel

MODEL = "scripted"
PARAMETERS = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
TOOLS = [{"type": "function", "name": "light", "parameters": PARAMETERS, "strict": False}]


class Mood(BaseModel):
    mood: str


def client(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)


def answer(url):
    require(client(url).responses.create(model=MODEL, input=QUESTION).output_text, ANSWER)


def stream(url):
    with client(url).responses.stream(model=MODEL, input=QUESTION) as events:
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        require((text, events.get_final_response().output_text), (ANSWER, ANSWER))


def loop(url, streamed=False):
    asked, before, text = QUESTION, None, ""
    while True:
        options = {"model": MODEL, "input": asked, "tools": TOOLS, "previous_response_id": before}
        if streamed:
            with client(url).responses.stream(**options) as events:
                done = events.get_final_response()
        else:
            done = client(url).responses.create(**options)
        text, before, asked = text + done.output_text, done.id, []
        for item in done.output:
            if item.type == "function_call":
                result = light(**json.loads(item.arguments))
                asked.append({"type": "function_call_output", "call_id": item.call_id, "output": result})
        if not asked:
            return require_loop(text)


def form(url):
    require(client(url).responses.parse(model=MODEL, input=QUESTION, text_format=Mood).output_parsed, Mood(mood="bad"))


def evidence(url):
    extra = {"agentform": {"evidence": True}}
    done = client(url).responses.create(model=MODEL, input=QUESTION, tools=TOOLS, extra_body=extra)
    require(done.model_extra["agentform"]["decision"]["value"], None)


main(
    answer=answer,
    stream=stream,
    loop=loop,
    streamed_loop=lambda url: loop(url, streamed=True),
    form=form,
    evidence=evidence,
)
