"""A form with any number of closed fields up to twelve, and prompts of a given length, all invented."""

from __future__ import annotations

from agentform.messages import JsonValue, Message
from agentform.runtime.engine import Tokenizer
from benchmarks.common.items import ClosedField, Item

__all__ = ["timing_item"]

_FIELDS: tuple[tuple[str, tuple[JsonValue, ...]], ...] = (
    ("category", ("billing", "delivery", "repair", "returns", "other")),
    ("priority", ("low", "normal", "high", "urgent")),
    ("needs_reply", (True, False)),
    ("channel", ("email", "phone", "chat")),
    ("sentiment", ("positive", "neutral", "negative")),
    ("product_line", ("kitchen appliances", "kitchen furniture", "garden tools", "lighting")),
    ("refund", ("none", "partial refund", "full refund", None)),
    ("attempts", (0, 1, 2, 3)),
    ("warranty", (True, False, None)),
    ("language", ("english", "spanish", "german", "french", "italian")),
    ("customer_type", ("private", "business", "reseller")),
    ("next_step", ("close the case", "ask for details", "send a technician", "escalate")),
)
_SENTENCES = (
    "The kettle that I ordered in March stopped working after the second week.",
    "I wrote to the shop twice and was told to wait for a reply.",
    "The parcel had been opened before it came, and one screw was missing.",
    "My neighbour has the same model and never had trouble with it.",
    "I would like to know whether the repair is free and how long it takes.",
    "On the phone they said that a form has to be filled in first.",
    "The lamp beside it works well, so the socket cannot be the reason.",
    "Please answer by email, since I am at work during the day.",
)


def timing_item(tokenizer: Tokenizer, num_fields: int, prompt_tokens: int, nonce: str) -> Item:
    """A form of `num_fields` fields after a message of about `prompt_tokens`; `nonce` begins it: a fresh prefix."""
    text = f"Case {nonce}."
    count = 0
    while True:
        item = _item(num_fields, text)
        if len(_prompt(tokenizer, item)) >= prompt_tokens:
            return item
        text += " " + _SENTENCES[count % len(_SENTENCES)]
        count += 1


def _item(num_fields: int, text: str) -> Item:
    return Item(
        id=text[:20],
        set="timing",
        form="case",
        about="Sort a case",
        messages=(Message(role="user", content=text),),
        fields=tuple(
            ClosedField(name=name, description="", options=options, gold=(options[0],))
            for name, options in _FIELDS[:num_fields]
        ),
    )


def _prompt(tokenizer: Tokenizer, item: Item) -> tuple[int, ...]:
    """The form's description as system message, then the message."""
    said = [{"role": "system", "content": item.about}, {"role": "user", "content": item.messages[0].content}]
    return tuple(tokenizer.render(said))
