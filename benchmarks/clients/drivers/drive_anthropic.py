"""The anthropic package."""

import anthropic
from common import ANSWER, DONE, QUESTION, light, main, require
from common import CALLED as called
from pydantic import BaseModel

USER = [{"role": "user", "content": QUESTION}]
ASK = {"model": "scripted", "max_tokens": 200}
SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
TOOLS = [{"name": "light", "input_schema": SCHEMA}]


class Mood(BaseModel):
    mood: str


def client(url):
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


def answer(url):
    require(client(url).messages.create(messages=USER, **ASK).content[0].text, ANSWER)
    require(client(url).messages.count_tokens(messages=USER, model="scripted").input_tokens > 0, True)


def stream(url):
    with client(url).messages.stream(messages=USER, **ASK) as events:
        require("".join(events.text_stream), ANSWER)


def loop(url, streamed=False):
    messages = list(USER)
    while True:
        if streamed:
            with client(url).messages.stream(messages=messages, tools=TOOLS, **ASK) as events:
                done = events.get_final_message()
        else:
            done = client(url).messages.create(messages=messages, tools=TOOLS, **ASK)
        messages.append({"role": "assistant", "content": done.content})
        uses = [block for block in done.content if block.type == "tool_use"]
        if not uses:  # text before a call is a block of its message here, as the API has it
            return require((called, done.content[0].text, done.stop_reason), (["office"], DONE, "end_turn"))
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": light(**use.input)} for use in uses]
        messages.append({"role": "user", "content": results})


def form(url):
    require(client(url).messages.parse(messages=USER, output_format=Mood, **ASK).parsed_output, Mood(mood="bad"))


def evidence(url):
    extra = {"agentform": {"evidence": True}}
    done = client(url).messages.create(messages=USER, tools=TOOLS, extra_body=extra, **ASK)
    require(done.model_extra["agentform"]["decision"]["value"], None)


main(
    answer=answer,
    stream=stream,
    loop=loop,
    streamed_loop=lambda url: loop(url, streamed=True),
    form=form,
    evidence=evidence,
)
