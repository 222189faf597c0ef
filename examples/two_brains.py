"""A form that two models fill: a decision model behind System One's API chooses, a chat model writes.

Without an address the same model does both, which shows who decided what, and that answers are read apart.
"""

import argparse
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from agentform import EngineDecisions, fill_sync, load_decider, load_engine


class Ticket(BaseModel):
    """A support ticket."""

    category: Annotated[Literal["billing", "delivery", "technical"], Field(description="What is the message about?")]
    urgent: Annotated[bool, Field(description="Must it be solved today?")]
    summary: Annotated[str, Field(max_length=60, description="The problem in one sentence")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decider", help="such as http://localhost:8000/v1/systemone")
    parser.add_argument("--model", default="smollm2-135m")
    arguments = parser.parse_args()
    engine = load_engine(arguments.model)
    decider = load_decider(arguments.decider or EngineDecisions(engine), timeout_s=300)
    filled = fill_sync(engine, "My parcel has not arrived and I need it tomorrow!", Ticket, decider=decider)
    print(filled.value)
    for leaf in filled.evidence:
        print(leaf.pointer, leaf.how, f"by {leaf.by}" if leaf.by else "by the chat model", leaf.probability)


if __name__ == "__main__":
    main()
