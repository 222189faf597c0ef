"""Two desks of other trades, whose messages decide what the demo's may not: whether a change helps in general.

Tools, messages and what is expected of each were written down before a model was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from agentform import tool
from benchmarks.desk.expected import Expected

__all__ = ["DESKS", "Desk"]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Tools and messages, each message a conversation of its own."""

    instructions: str
    tools: tuple[Callable[..., Any], ...]
    asked: Sequence[tuple[str, Expected]]


@tool
def reserve_table(
    day: Annotated[Literal["today", "tomorrow", "friday", "saturday", "sunday"], Field(description="Which day")],
    hour: Annotated[int, Field(ge=11, le=22, description="The hour on a 24-hour clock")],
    guests: Annotated[int, Field(ge=1, le=12, description="How many people come")],
    outside: Annotated[bool, Field(description="Whether they want to sit outside")],
) -> str:
    """Reserve a table for guests."""
    return f"A table for {guests} is reserved {day} at {hour}:00{', outside' if outside else ''}."


@tool
def delivery_status(code: Annotated[str, Field(pattern=r"^[A-Z]{3}[0-9]{3}$", description="The order's code")]) -> str:
    """Find out when a meal that was ordered arrives."""
    return f"{code} is on its way and arrives in ten minutes."


@tool
def report_complaint(
    about: Annotated[Literal["food", "service", "bill", "delivery"], Field(description="What was wrong")],
    wants_money_back: Annotated[bool, Field(description="Whether the guest asks for money back")],
    words: Annotated[str, Field(min_length=5, max_length=80, description="The complaint in one sentence")],
) -> str:
    """Write down a guest's complaint."""
    return f"The complaint about the {about} is noted."


@tool
def set_heating(
    room: Annotated[Literal["kitchen", "bedroom", "office", "bathroom"], Field(description="Which room")],
    degrees: Annotated[int, Field(ge=5, le=28, description="Degrees Celsius")],
) -> str:
    """Set how warm a room is to be."""
    return f"The {room} will have {degrees} degrees."


@tool
def play_music(
    kind: Annotated[Literal["jazz", "classical", "rock", "news"], Field(description="What to play")],
    room: Annotated[Literal["kitchen", "bedroom", "office", "bathroom"], Field(description="Where to play it")],
    loud: Annotated[bool, Field(description="Whether it should be loud")],
) -> str:
    """Play music or the news in a room."""
    return f"Playing {kind} in the {room}."


@tool
def add_reminder(
    day: Annotated[
        Literal["today", "tomorrow", "monday", "tuesday", "wednesday", "thursday", "friday"],
        Field(description="The day to remind"),
    ],
    hour: Annotated[int, Field(ge=0, le=23, description="The hour to remind, on a 24-hour clock")],
    who: Annotated[Literal["me", "everyone"], Field(description="Who is reminded")],
    text: Annotated[str, Field(min_length=3, max_length=60, description="What of")],
) -> str:
    """Remind somebody of something."""
    return f"The reminder is set for {day}, {hour}:00."


def _table(day: str, hour: int, guests: int, *, outside: bool = False) -> Expected:
    return Expected(tool="reserve_table", arguments={"day": day, "hour": hour, "guests": guests, "outside": outside})


def _complaint(about: str, *, money: bool) -> Expected:
    return Expected(tool="report_complaint", arguments={"about": about, "wants_money_back": money})


def _delivery(code: str) -> Expected:
    return Expected(tool="delivery_status", arguments={"code": code})


def _heating(room: str, degrees: int) -> Expected:
    return Expected(tool="set_heating", arguments={"room": room, "degrees": degrees})


def _music(kind: str, room: str, *, loud: bool) -> Expected:
    return Expected(tool="play_music", arguments={"kind": kind, "room": room, "loud": loud})


def _reminder(day: str, hour: int, who: str) -> Expected:
    return Expected(tool="add_reminder", arguments={"day": day, "hour": hour, "who": who})


RESTAURANT = Desk(
    instructions="You are the host of a small restaurant. Be brief and friendly.",
    tools=(reserve_table, delivery_status, report_complaint),
    asked=(
        (
            "A table for four on Saturday at 7 in the evening, please, outside if it is dry.",
            _table("saturday", 19, 4, outside=True),
        ),
        ("Can we come tomorrow at noon? We are two and would like to sit inside.", _table("tomorrow", 12, 2)),
        ("Please book us in for Sunday at 1 pm, six people, in the garden.", _table("sunday", 13, 6, outside=True)),
        ("I need a table indoors for eight colleagues this Friday, 8 pm.", _table("friday", 20, 8)),
        ("Where is my pizza? The code is KLM204.", _delivery("KLM204")),
        ("My order QRS771 should have been here half an hour ago, when does it come?", _delivery("QRS771")),
        ("I want to complain: the soup was cold and tasted of nothing.", _complaint("food", money=False)),
        (
            "You charged me for two bottles of wine and we had one. I want my money back.",
            _complaint("bill", money=True),
        ),
        ("Please note a complaint, the waiter was rude to my mother.", _complaint("service", money=False)),
        (
            "The driver left our dinner in the rain. I complain, and I expect a refund.",
            _complaint("delivery", money=True),
        ),
        ("Good evening! The fish last night was wonderful.", Expected()),
        ("Thank you very much, goodbye!", Expected()),
    ),
)
HOME = Desk(
    instructions="You are the assistant of a household. Be brief.",
    tools=(set_heating, play_music, add_reminder),
    asked=(
        ("Make the bathroom 23 degrees, please.", _heating("bathroom", 23)),
        ("It is too cold where I work, set the office to 21.", _heating("office", 21)),
        ("Turn the heating in the bedroom down to 16 for the night.", _heating("bedroom", 16)),
        ("Play some jazz in the kitchen, quietly.", _music("jazz", "kitchen", loud=False)),
        ("I want to hear rock in the office, really loud!", _music("rock", "office", loud=True)),
        ("Put the news on in the bathroom, not too loud.", _music("news", "bathroom", loud=False)),
        ("Some soft classical music in the bedroom, please.", _music("classical", "bedroom", loud=False)),
        ("Remind me tomorrow at 9 to water the plants.", _reminder("tomorrow", 9, "me")),
        (
            "Remind all of us on Wednesday at 6 pm that grandma comes for dinner.",
            _reminder("wednesday", 18, "everyone"),
        ),
        ("Please remind me today at 3 in the afternoon to call the dentist.", _reminder("today", 15, "me")),
        ("Good morning, did you sleep well?", Expected()),
        ("That was all, thanks a lot.", Expected()),
    ),
)
DESKS: dict[str, Desk] = {"restaurant": RESTAURANT, "home": HOME}
