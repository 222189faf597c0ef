"""Forms whose pairs of fields are coupled by a rule or independent by construction, with texts that state the values.

Written before anything was measured on them, but for two things: `adults` and `children` count as neither (their sum is
a third field), and the form `shipment` was added, whose independent numbers stand for what is only repeated. The
criterion was chosen on the first six, the others are held out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

from agentform.messages import JsonValue
from agentform.schema.target import Target, load

__all__ = ["FORMS", "SEED", "CoupledForm"]

SEED = 20261201
_Values: TypeAlias = Mapping[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class CoupledForm:
    """A form, which of its pairs are coupled, and texts that state all values."""

    name: str
    about: str
    options: Mapping[str, tuple[JsonValue, ...]]
    """By field."""
    described: Mapping[str, str]
    derived: Mapping[str, Callable[[_Values], JsonValue]]
    """Fields that follow from others; all others are drawn independently of one another."""
    coupled: frozenset[frozenset[str]]
    texts: tuple[str, ...]
    """Templates with the fields' names in braces; `said` words are put in their place."""
    said: Mapping[str, Mapping[JsonValue, str]] = field(default_factory=dict[str, Mapping[JsonValue, str]])
    held_out: bool = False
    verbatim: bool = False
    """The texts are no templates: they are given as they are, one after another."""
    undecided: frozenset[frozenset[str]] = frozenset()
    """Pairs that are drawn independently, but that a rule over three fields ties once the third is known."""

    @property
    def pairs(self) -> list[frozenset[str]]:
        """Every pair of fields, in whatever direction."""
        return [frozenset(pair) for pair in combinations(self.options, 2)]

    def target(self) -> Target:
        """The form without any dependency declared."""
        properties = {
            name: {"description": self.described[name], "enum": list(options)} for name, options in self.options.items()
        }
        schema: dict[str, Any] = {
            "title": self.name,
            "description": self.about,
            "type": "object",
            "properties": properties,
            "required": list(properties),
        }
        return load(schema, name=self.name)

    def examples(self, count: int) -> list[str]:
        """That many texts, the same ones in every run."""
        if self.verbatim:
            return list(self.texts[:count])
        drawn = random.Random(f"{SEED} {self.name}")
        return [self._text(drawn) for _ in range(count)]

    def _text(self, drawn: random.Random) -> str:
        values = {name: drawn.choice(options) for name, options in self.options.items() if name not in self.derived}
        values |= {name: rule(values) for name, rule in self.derived.items()}
        words = {name: self.said.get(name, {}).get(value, str(value)) for name, value in values.items()}
        return drawn.choice(self.texts).format(**words)


def _form(
    name: str,
    about: str,
    fields: Mapping[str, tuple[str, tuple[JsonValue, ...]]],
    coupled: Sequence[tuple[str, str]],
    derived: Mapping[str, Callable[[_Values], JsonValue]],
    texts: Sequence[str],
    said: Mapping[str, Mapping[JsonValue, str]],
    *,
    held_out: bool = False,
    undecided: Sequence[tuple[str, str]] = (),
) -> CoupledForm:
    return CoupledForm(
        name=name,
        about=about,
        options={key: options for key, (_, options) in fields.items()},
        described={key: description for key, (description, _) in fields.items()},
        derived=derived,
        coupled=frozenset(frozenset(pair) for pair in coupled),
        texts=tuple(texts),
        said=said,
        held_out=held_out,
        undecided=frozenset(frozenset(pair) for pair in undecided),
    )


_BOTH = (True, False)
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")

FORMS: tuple[CoupledForm, ...] = (
    _form(
        "clothes_order",
        "An order of clothes",
        {
            "color": ("Color of the garment", ("red", "blue", "green", "black")),
            "gift_wrap": ("Whether it is to be wrapped as a gift", _BOTH),
            "delivery": ("How it reaches the customer", ("courier", "pickup", "post")),
            "needs_address": ("Whether an address is needed to deliver it", _BOTH),
        },
        [("delivery", "needs_address")],
        {"needs_address": lambda v: v["delivery"] != "pickup"},
        [
            "I take the {color} jacket, {gift_wrap}, and {delivery}.",
            "One {color} scarf please. As to how I get it: {delivery}. Also, {gift_wrap}.",
        ],
        {
            "gift_wrap": {True: "wrapped as a present", False: "without any wrapping"},
            "delivery": {
                "courier": "a courier may bring it",
                "pickup": "I will pick it up in the shop",
                "post": "send it by post",
            },
        },
    ),
    _form(
        "ticket",
        "A support ticket",
        {
            "category": ("What it is about", ("billing", "delivery", "technical")),
            "team": ("Who deals with it", ("office", "couriers", "workshop")),
            "language": ("Language that the customer wants to be answered in", ("English", "German", "Spanish")),
            "product": ("What was bought", ("lamp", "chair", "kettle")),
        },
        [("category", "team")],
        {"team": lambda v: {"billing": "office", "delivery": "couriers", "technical": "workshop"}[str(v["category"])]},
        [
            "About the {product}: {category}. Please answer in {language}.",
            "I bought a {product} from you, and {category}. I speak {language}.",
        ],
        {
            "category": {
                "billing": "I was charged twice on the invoice",
                "delivery": "the parcel has not arrived",
                "technical": "it broke on the first day",
            }
        },
    ),
    _form(
        "trip",
        "A booking of a trip",
        {
            "country": ("Where the trip goes", ("France", "Japan", "Mexico")),
            "currency": ("Currency that is used there", ("euro", "yen", "peso")),
            "travellers": ("How many people travel", (1, 2, 3, 4)),
            "window_seat": ("Whether a seat at the window is wanted", _BOTH),
        },
        [("country", "currency")],
        {"currency": lambda v: {"France": "euro", "Japan": "yen", "Mexico": "peso"}[str(v["country"])]},
        [
            "We are {travellers} and want to go to {country}, {window_seat}.",
            "Flights to {country} for {travellers} of us, {window_seat}, please.",
        ],
        {"window_seat": {True: "at the window", False: "on the aisle"}},
    ),
    _form(
        "review",
        "A review in a shop",
        {
            "stars": ("Stars that the writer gives", (1, 2, 3, 4, 5)),
            "recommends": ("Whether the writer recommends it", _BOTH),
            "article": ("What is reviewed", ("book", "film", "album")),
            "is_gift": ("Whether it was given to the writer as a gift", _BOTH),
        },
        [("stars", "recommends")],
        {"recommends": lambda v: int(str(v["stars"])) >= 3},
        [
            "{stars} for this {article}. {is_gift}.",
            "{is_gift}. The {article} gets {stars} from me.",
        ],
        {
            "stars": {1: "One star", 2: "Two stars", 3: "Three stars", 4: "Four stars", 5: "Five stars"},
            "is_gift": {True: "My aunt gave it to me as a gift", False: "I bought it myself"},
        },
    ),
    _form(
        "date_range",
        "When something takes place",
        {"start_month": ("Month of the first day", _MONTHS), "end_month": ("Month of the last day", _MONTHS)},
        [("start_month", "end_month")],
        {"end_month": lambda v: _later(str(v["start_month"]))},
        [
            "The market opens in {start_month} and stays until the end of {end_month}.",
            "We will be away from {start_month} to {end_month}.",
        ],
        {},
    ),
    _form(
        "party",
        "Book a table",
        {
            "adults": ("Number of adults", (1, 2, 3, 4)),
            "children": ("Number of children", (0, 1, 2, 3)),
            "guests": ("Number of guests in all", (1, 2, 3, 4, 5, 6, 7)),
        },
        [("adults", "guests"), ("children", "guests")],
        {"guests": lambda v: int(str(v["adults"])) + int(str(v["children"]))},
        [
            "A table for {guests} people, please: {adults} adults and {children} children.",
            "We come with {children} children, and there are {adults} adults, so {guests} of us.",
        ],
        {},
        undecided=[("adults", "children")],
    ),
    _form(
        "pet",
        "An appointment at the vet",
        {
            "kind": ("What animal it is", ("cat", "dog", "cow")),
            "sound": ("The sound that the animal makes", ("meow", "bark", "moo")),
            "weekday": ("Day of the appointment", ("Monday", "Wednesday", "Friday")),
            "vaccinated": ("Whether it has had its vaccinations", _BOTH),
        },
        [("kind", "sound")],
        {"sound": lambda v: {"cat": "meow", "dog": "bark", "cow": "moo"}[str(v["kind"])]},
        [
            "Can I bring my {kind} on {weekday}? It {vaccinated}.",
            "My {kind}, which {vaccinated}, is limping. {weekday} would suit me.",
        ],
        {"vaccinated": {True: "has had all its shots", False: "has never had a shot"}},
        held_out=True,
    ),
    _form(
        "vehicle",
        "A vehicle that is to be insured",
        {
            "vehicle": ("What it is", ("bicycle", "car", "motorcycle", "van")),
            "wheels": ("How many wheels it has", (2, 4)),
            "paint": ("Its color", ("white", "silver", "yellow")),
            "garage": ("Whether it stands in a garage at night", _BOTH),
        },
        [("vehicle", "wheels")],
        {"wheels": lambda v: 4 if v["vehicle"] in ("car", "van") else 2},
        [
            "It is a {paint} {vehicle}, and at night it stands {garage}.",
            "I would like to insure my {vehicle}. {paint}, kept {garage}.",
        ],
        {"garage": {True: "in the garage", False: "out in the street"}},
        held_out=True,
    ),
    _form(
        "hotel",
        "A stay at a hotel",
        {
            "month": ("Month of arrival", ("January", "April", "July", "October")),
            "season": ("Season of the stay", ("winter", "spring", "summer", "autumn")),
            "nights": ("How many nights", (1, 2, 3, 4)),
            "breakfast": ("Whether breakfast is wanted", _BOTH),
        },
        [("month", "season")],
        {
            "season": lambda v: {"January": "winter", "April": "spring", "July": "summer", "October": "autumn"}[
                str(v["month"])
            ]
        },
        [
            "A room in {month} for {nights}, {breakfast}.",
            "We come in {month} and stay for {nights}, {breakfast}.",
        ],
        {
            "nights": {1: "one night", 2: "two nights", 3: "three nights", 4: "four nights"},
            "breakfast": {True: "with breakfast", False: "no breakfast for us"},
        },
        held_out=True,
    ),
    _form(
        "payment",
        "A payment that a customer asks about",
        {
            "status": ("Where the payment stands", ("unpaid", "paid", "refunded")),
            "is_owed": ("Whether the customer still owes the money", _BOTH),
            "method": ("How it is paid", ("card", "transfer", "cash")),
            "branch": ("Branch of the shop", ("east", "west", "north")),
        },
        [("status", "is_owed")],
        {"is_owed": lambda v: v["status"] == "unpaid"},
        [
            "In the {branch} branch: {status}, by {method}.",
            "I was in your {branch} shop. {status}; it is by {method}.",
        ],
        {
            "status": {
                "unpaid": "I have not paid yet",
                "paid": "I have paid everything",
                "refunded": "you gave me my money back",
            }
        },
        held_out=True,
    ),
    _form(
        "shipment",
        "A shipment to be collected",
        {
            "boxes": ("How many boxes there are", (1, 2, 3, 4)),
            "floor": ("Floor from which they are collected", (1, 2, 3, 4)),
            "fragile": ("Whether anything in them can break", _BOTH),
            "insured": ("Whether the shipment is to be insured", _BOTH),
        },
        [],
        {},
        [
            "There are {boxes} boxes on floor {floor}. {fragile}, and we want it {insured}.",
            "Please come to floor {floor}: {boxes} boxes, {insured}. {fragile}.",
        ],
        {
            "fragile": {True: "There is glass inside", False: "Nothing in it can break"},
            "insured": {True: "insured", False: "without insurance"},
        },
        held_out=True,
    ),
)
"""Six to choose the criterion on, five held out. `date_range` and `party` are those of the contradictions study."""


def _later(month: str) -> str:
    """A month after it, or the last one; not always the next."""
    at = _MONTHS.index(month)
    return _MONTHS[min(len(_MONTHS) - 1, at + 1 + (at * 7) % 3)]
