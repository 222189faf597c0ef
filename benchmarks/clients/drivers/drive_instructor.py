"""Instructor, with tools over chat completions or Responses, or a JSON Schema."""

from typing import Literal

import instructor
import openai
from common import QUESTION, VARIANT, main, require
from pydantic import BaseModel

MODES = {
    "tools": instructor.Mode.TOOLS,
    "responses": instructor.Mode.RESPONSES_TOOLS,
    "schema": instructor.Mode.JSON_SCHEMA,
}


class Mood(BaseModel):
    mood: Literal["good", "bad"]


def form(url):
    inner = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    client = instructor.from_openai(inner, mode=MODES[VARIANT])
    asked = [{"role": "user", "content": QUESTION}]
    if VARIANT == "responses":
        found = client.responses.create(model="scripted", input=asked, response_model=Mood)
    else:
        found = client.chat.completions.create(model="scripted", messages=asked, response_model=Mood)
    require(found.model_dump(), {"mood": "bad"})


main(form=form)
