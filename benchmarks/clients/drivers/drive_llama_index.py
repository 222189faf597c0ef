"""LlamaIndex, chat completions."""

from common import ANSWER, QUESTION, light, main, require, require_loop
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.llms.openai_like import OpenAILike


def model(url):
    return OpenAILike(
        model="scripted",
        api_base=url + "/v1",
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=8192,
        max_retries=0,
    )


def answer(url):
    require(str(model(url).complete(QUESTION)), ANSWER)


def stream(url):
    require("".join(chunk.delta or "" for chunk in model(url).stream_complete(QUESTION)), ANSWER)


async def loop(url):
    agent = FunctionAgent(tools=[light], llm=model(url), streaming=False)
    require_loop(str(await agent.run(QUESTION)))


async def streamed_loop(url):
    run, text = FunctionAgent(tools=[light], llm=model(url)).run(QUESTION), ""
    async for event in run.stream_events():
        text += event.delta if isinstance(event, AgentStream) else ""
    await run
    require_loop(text)


main(answer=answer, stream=stream, loop=loop, streamed_loop=streamed_loop)
