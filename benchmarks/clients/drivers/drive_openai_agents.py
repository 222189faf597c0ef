"""OpenAI Agents, over Responses, its default, or chat completions."""

from agents import (
    Agent,
    ModelSettings,
    Runner,
    function_tool,
    set_default_openai_api,
    set_default_openai_client,
    set_tracing_disabled,
)
from common import ANSWER, QUESTION, VARIANT, light, main, require, require_loop
from openai import AsyncOpenAI
from pydantic import BaseModel


class Mood(BaseModel):
    mood: str


def agent(url, **options):
    set_tracing_disabled(True)
    set_default_openai_client(AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0), use_for_tracing=False)
    set_default_openai_api({"responses": "responses", "chat": "chat_completions"}[VARIANT])
    return Agent(name="house", model="scripted", model_settings=ModelSettings(), **options)


async def answer(url):
    require((await Runner.run(agent(url), QUESTION)).final_output, ANSWER)


async def stream(url):
    run, text = Runner.run_streamed(agent(url), QUESTION), ""
    async for event in run.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            text += event.data.delta
    require((text, run.final_output), (ANSWER, ANSWER))


async def loop(url):
    require_loop((await Runner.run(agent(url, tools=[function_tool(light)]), QUESTION)).final_output)


async def streamed_loop(url):
    run, text = Runner.run_streamed(agent(url, tools=[function_tool(light)]), QUESTION), ""
    async for event in run.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            text += event.data.delta
    require_loop(text)


async def form(url):
    require((await Runner.run(agent(url, output_type=Mood), QUESTION)).final_output, Mood(mood="bad"))


main(answer=answer, stream=stream, loop=loop, streamed_loop=streamed_loop, form=form)
