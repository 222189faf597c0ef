"""smolagents, chat completions: it requires a call in every turn, its last one `final_answer`."""

from common import CALLED, DONE, QUESTION, main, require
from common import light as switch
from smolagents import OpenAIServerModel, ToolCallingAgent, tool


@tool
def light(room: str) -> str:
    """Switch on the light in a room.

    Args:
        room: The room, such as office.
    """
    return switch(room)


def loop(url, streamed=False):
    model = OpenAIServerModel(model_id="scripted", api_base=url + "/v1", api_key="none", max_tokens=80)
    agent = ToolCallingAgent(tools=[light], model=model, stream_outputs=streamed, verbosity_level=0)
    require((agent.run(QUESTION), CALLED), (DONE, ["office"]))


main(loop=loop, streamed_loop=lambda url: loop(url, streamed=True))
