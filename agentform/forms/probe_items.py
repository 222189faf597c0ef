"""Labelled examples that come with the package: what a model is measured on where the user has none of their own.

Everyday texts, written for this purpose: yes or no, a few options, many options, scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentform.forms.tuning import Example
from agentform.messages import JsonValue

__all__ = ["PROBE_EXAMPLES"]


def _asked(
    field: str, description: str, options: Sequence[JsonValue], texts: Mapping[str, JsonValue]
) -> tuple[Example, ...]:
    return tuple(
        Example(text=text, field=field, options=tuple(options), gold=gold, description=description)
        for text, gold in texts.items()
    )


_URGENT = _asked(
    "urgent",
    "Whether it has to be dealt with today",
    (True, False),
    {
        "Water is coming through the ceiling of my flat, please send someone right now!": True,
        "No rush at all, whenever you get round to it is fine.": False,
        "The ambulance entrance is blocked by a lorry, we need it moved this minute.": True,
        "For next spring we are thinking about a new fence; could you send a catalogue some time?": False,
        "Our flight leaves in two hours and the visa office still has my passport.": True,
        "I was just wondering how old your company is.": False,
        "My insulin has run out and the pharmacy closes at six tonight.": True,
        "Please add me to the newsletter when you next update the list.": False,
    },
)
_MOOD = _asked(
    "mood",
    "How the writer feels",
    ("happy", "angry", "sad", "afraid"),
    {
        "We won the cup, I could hug the whole world!": "happy",
        "Three times you promised to call and three times you lied to me. This is outrageous.": "angry",
        "Since our dog died the house is so quiet that I cry every evening.": "sad",
        "Someone is walking around downstairs and I am too scared to move.": "afraid",
        "The baby smiled at me for the first time today, what a wonderful morning.": "happy",
        "Who scratched my car again? I am furious, and somebody will pay for this.": "angry",
        "My best friend is moving away and I miss her already.": "sad",
        "I tremble whenever the doctor's number shows on my phone.": "afraid",
    },
)
_SUBJECT = _asked(
    "subject",
    "School subject that the sentence belongs to",
    ("mathematics", "history", "biology", "geography", "music", "chemistry"),
    {
        "The sum of the angles of a triangle is 180 degrees.": "mathematics",
        "The emperor was crowned in the winter of the year 800.": "history",
        "Leaves turn sunlight into sugar.": "biology",
        "The river rises in the Alps and flows north into the sea.": "geography",
        "The second movement is a slow waltz in a minor key.": "music",
        "An acid and a base react to a salt and water.": "chemistry",
        "Prime numbers have exactly two divisors.": "mathematics",
        "After the siege the city signed a treaty with the duke.": "history",
    },
)
_ROOM = _asked(
    "room",
    "Where in the house the thing is usually found",
    (
        "attic",
        "balcony",
        "bathroom",
        "bedroom",
        "cellar",
        "corridor",
        "garage",
        "garden",
        "kitchen",
        "laundry",
        "library",
        "nursery",
        "office",
        "pantry",
    ),
    {
        "I put the frying pan back on the stove.": "kitchen",
        "The shower drips all night long.": "bathroom",
        "Her car is parked next to the winter tyres.": "garage",
        "He fell asleep under the thick blanket.": "bedroom",
        "The cot and the toys were painted blue.": "nursery",
        "Thousands of novels stand on the shelves.": "library",
        "The roses need water every morning.": "garden",
        "The washing machine and the dryer are running.": "laundry",
    },
)
PROBE_EXAMPLES: tuple[Example, ...] = tuple(
    example
    for kind in (_URGENT, _MOOD, _SUBJECT, _ROOM)
    for pair in zip(kind[: len(kind) // 2], kind[len(kind) // 2 :], strict=True)
    for example in pair
)
"""In this order each of the halves, every second example, holds every kind."""
