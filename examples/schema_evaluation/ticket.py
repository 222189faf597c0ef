"""A schema with two faults that can be found before it is used: see texts.jsonl and evaluate.py beside it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

__all__ = ["Ticket"]


class Ticket(BaseModel):
    """A support ticket."""

    category: Annotated[Literal["billing", "delivery", "technical"], Field(description="What it is about")]
    team: Annotated[Literal["accountants", "couriers", "engineers"], Field(description="Who deals with it")]
    urgent: Annotated[bool, Field(description="Whether it must be solved today")]
    status: Annotated[str, Field(description="One of: new, open, closed")]
