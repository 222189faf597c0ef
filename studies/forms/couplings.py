"""Forms whose leaves must agree with one another: what couples them, and items with right answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentform.errors import Violation
from agentform.messages import JsonValue, Message
from agentform.schema.target import Target, load
from agentform.schema.validate import Validator
from benchmarks.common.harness import Context
from benchmarks.common.items import ClosedField, Item
from studies.forms.accuracy import SEED, splits

__all__ = ["Coupling", "couplings"]

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
_Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Coupling:
    """A rule over the leaves of a form, and items that have the form."""

    name: str
    items: tuple[Item, ...]
    agrees: Callable[[_Values], bool]
    reason: str
    depends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What a user would declare: the parents of each leaf that has some."""

    def target(self, item: Item, *, declared: bool, checked: bool) -> Target:
        """The item's form, with the dependency declared and the rule checked by its validator, or not."""
        schema = item.schema
        for name, parents in self.depends.items() if declared else ():
            schema["properties"][name]["x-depends-on"] = list(parents)
        plain = load(schema, name=item.form)
        return replace(plain, validator=_Checked(plain.validator, self)) if checked else plain


class _Checked(Validator):
    """A validator that also holds the form to the rule, as a model validator of pydantic would."""

    def __init__(self, inner: Validator, rule: Coupling) -> None:
        self._inner = inner
        self._rule = rule

    def check(self, value: JsonValue) -> tuple[Violation, ...]:
        found = self._inner.check(value)
        if found or not isinstance(value, Mapping) or self._rule.agrees(value):
            return found
        return (Violation(pointer="", reason=self._rule.reason),)

    def build(self, value: JsonValue) -> Any:
        return self._inner.build(value)


def couplings(context: Context, *, quick: bool) -> Iterator[Coupling]:
    """Two invented ones, and with data two over public sets."""
    yield _dates(6 if quick else 160)
    yield _party(6 if quick else 160)
    if context.data is not None:
        yield _sports(context, 4 if quick else 120)
        yield _domains(context, 4 if quick else 80)


def _leaf(name: str, description: str, options: tuple[JsonValue, ...], gold: JsonValue) -> ClosedField:
    return ClosedField(name=name, description=description, options=options, gold=(gold,))


def _item(name: str, number: int, about: str, text: str, fields: tuple[ClosedField, ...]) -> Item:
    said = (Message(role="user", content=text),)
    return Item(id=f"{name}_{number}", set=name, form=name, about=about, messages=said, fields=fields)


def _dates(count: int) -> Coupling:
    texts = (
        "The market opens in {0} and stays until the end of {1}.",
        "We will be away from {0} to {1}.",
        "Please close the road for works, starting {0}; it is to be free again after {1}.",
    )
    drawn = random.Random(SEED)
    items: list[Item] = []
    for number in range(count):
        first, last = sorted(drawn.sample(range(len(_MONTHS)), 2))
        leaves = (
            _leaf("start_month", "Month of the first day", _MONTHS, _MONTHS[first]),
            _leaf("end_month", "Month of the last day", _MONTHS, _MONTHS[last]),
        )
        text = drawn.choice(texts).format(_MONTHS[first], _MONTHS[last])
        items.append(_item("date_range", number, "When something takes place", text, leaves))
    return Coupling(
        name="date_range",
        items=tuple(items),
        agrees=lambda value: _MONTHS.index(value["start_month"]) <= _MONTHS.index(value["end_month"]),
        reason="end_month lies before start_month",
        depends={"end_month": ("start_month",)},
    )


def _party(count: int) -> Coupling:
    texts = (
        "A table for {2} people, please: {0} adults and {1} children.",
        "We come with {1} children, and there are {0} adults, so {2} of us.",
    )
    drawn = random.Random(SEED + 1)
    items: list[Item] = []
    for number in range(count):
        adults, children = drawn.randint(1, 4), drawn.randint(0, 3)
        leaves = (
            _leaf("adults", "Number of adults", (1, 2, 3, 4), adults),
            _leaf("children", "Number of children", (0, 1, 2, 3), children),
            _leaf("guests", "Number of guests in all", (1, 2, 3, 4, 5, 6, 7), adults + children),
        )
        text = drawn.choice(texts).format(adults, children, adults + children)
        items.append(_item("party", number, "Book a table", text, leaves))
    return Coupling(
        name="party",
        items=tuple(items),
        agrees=lambda value: value["adults"] + value["children"] == value["guests"],
        reason="guests is not adults and children together",
        depends={"guests": ("adults", "children")},
    )


def _sports(context: Context, count: int) -> Coupling:
    items: list[Item] = []
    for number, item in enumerate(splits(context, "ag_news")[1][:count]):
        [topic] = item.fields
        flag = _leaf("is_sports", "Whether the news item is about sports", (True, False), topic.gold[0] == "Sports")
        items.append(replace(item, id=f"topic_flag_{number}", form="topic_flag", fields=(topic, flag)))
    return Coupling(
        name="topic_flag",
        items=tuple(items),
        agrees=lambda value: value["is_sports"] == (value["topic"] == "Sports"),
        reason="is_sports does not fit topic",
        depends={"is_sports": ("topic",)},
    )


def _domains(context: Context, count: int) -> Coupling:
    members: dict[str, list[str]] = json.loads(context.need("forms", "clinc150", "domains.json").read_text())
    domain_of = {intent: domain for domain, intents in members.items() for intent in intents}
    items: list[Item] = []
    for number, item in enumerate(splits(context, "clinc150")[1][:count]):
        [intent] = item.fields
        right = domain_of[str(intent.gold[0])]
        domain = _leaf("domain", "The area that the intent belongs to", tuple(members), right)
        items.append(replace(item, id=f"intent_domain_{number}", form="intent_domain", fields=(intent, domain)))
    return Coupling(
        name="intent_domain",
        items=tuple(items),
        agrees=lambda value: domain_of[value["intent"]] == value["domain"],
        reason="domain is not the one of intent",
        depends={"domain": ("intent",)},
    )
