"""PydanticAI, over chat completions, Responses or Anthropic's messages."""

from common import ANSWER, QUESTION, VARIANT, light, main, require, require_loop
from pydantic import BaseModel
from pydantic_ai import Agent


class Mood(BaseModel):
    mood: str


def model(url):
    if VARIANT == "messages":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel("scripted", provider=AnthropicProvider(base_url=url, api_key="none"))
    from pydantic_ai.models import openai
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = openai.OpenAIResponsesModel if VARIANT == "responses" else openai.OpenAIChatModel
    return kind("scripted", provider=OpenAIProvider(base_url=url + "/v1", api_key="none"))


async def answer(url):
    require((await Agent(model(url)).run(QUESTION)).output, ANSWER)


async def stream(url):
    async with Agent(model(url)).run_stream(QUESTION) as run:
        require("".join([text async for text in run.stream_text(delta=True)]), ANSWER)


async def loop(url):
    require_loop((await Agent(model(url), tools=[light]).run(QUESTION)).output)


async def streamed_loop(url):
    """What is said before a call is a thought over messages only where thoughts are asked for."""
    thinking = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}
    settings = thinking if VARIANT == "messages" else None
    async with Agent(model(url), tools=[light], model_settings=settings).run_stream(QUESTION) as run:
        require_loop("".join([text async for text in run.stream_text(delta=True)]))


async def form(url):
    require((await Agent(model(url), output_type=Mood).run(QUESTION)).output, Mood(mood="bad"))


main(answer=answer, stream=stream, loop=loop, streamed_loop=streamed_loop, form=form)
