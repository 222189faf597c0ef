"""Fill a form from a text: closed fields are scored in one batch, the free one is written under a grammar."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from agentform import fill_sync, load_engine


class Ticket(BaseModel):
    """A support ticket."""

    category: Annotated[Literal["billing", "delivery", "technical", "account"], Field(description="What it is about")]
    mood: Annotated[Literal["angry", "neutral", "happy"], Field(description="How the customer feels")]
    urgent: Annotated[bool, Field(description="Whether it must be solved today")]
    summary: Annotated[str, Field(max_length=80, description="The problem in one sentence")]


def main() -> None:
    engine = load_engine("smollm2-135m")
    filled = fill_sync(engine, "My parcel has not arrived and I am furious! I need it tomorrow.", Ticket)
    print(filled.value)
    for leaf in filled.evidence:
        print(leaf.pointer, leaf.how, leaf.probability, leaf.legal_mass)
    print(f"{filled.usage.completion_tokens} tokens written")


if __name__ == "__main__":
    main()
