"""LangChain, over chat completions, Responses or Anthropic's messages."""

from common import ANSWER, CALLED, DONE, QUESTION, VARIANT, light, main, require
from langchain.agents import create_agent
from pydantic import BaseModel


class Mood(BaseModel):
    mood: str


def model(url):
    if VARIANT == "messages":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model="scripted", base_url=url, api_key="none", max_retries=0, max_tokens=200)
    from langchain_openai import ChatOpenAI

    is_responses = VARIANT == "responses"
    return ChatOpenAI(
        model="scripted", base_url=url + "/v1", api_key="none", max_retries=0, use_responses_api=is_responses
    )


def answer(url):
    require(model(url).invoke(QUESTION).text, ANSWER)


def stream(url):
    require("".join(chunk.text for chunk in model(url).stream(QUESTION)), ANSWER)


def asked():
    return {"messages": [{"role": "user", "content": QUESTION}]}


def loop(url):
    done = create_agent(model(url), tools=[light]).invoke(asked())
    require((CALLED, done["messages"][-1].text), (["office"], DONE))


def streamed_loop(url):
    text = ""
    for chunk, _ in create_agent(model(url), tools=[light]).stream(asked(), stream_mode="messages"):
        text += chunk.text if chunk.type == "AIMessageChunk" else ""
    before = "It is dark there." if VARIANT == "messages" else ""  # a block of the message, as that API has it
    require((CALLED, text), (["office"], before + DONE))


def form(url):
    method = {"method": "json_schema"}
    found = model(url).with_structured_output(Mood, **method).invoke(QUESTION)
    require(found, Mood(mood="bad"))


main(answer=answer, stream=stream, loop=loop, streamed_loop=streamed_loop, form=form)
