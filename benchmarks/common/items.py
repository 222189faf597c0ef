"""What the benchmark asks: conversations with closed fields and the answers that count as right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentform.messages import JsonValue, Message
from agentform.schema.json_text import dumps
from agentform.schema.target import Target, load

__all__ = ["ClosedField", "Item"]


@dataclass(frozen=True, kw_only=True)
class ClosedField:
    """One leaf with a known set of options."""

    name: str
    description: str
    options: tuple[JsonValue, ...]
    gold: tuple[JsonValue, ...]
    """Every value that counts as right."""

    def is_right(self, index: int) -> bool:
        """Whether the option at `index` is accepted; 1 and true are different values."""
        return dumps(self.options[index]) in {dumps(value) for value in self.gold}


@dataclass(frozen=True, kw_only=True)
class Item:
    """One form to fill from one conversation that ends with the user's message."""

    id: str
    set: str
    form: str
    """Name of the form; items with the same one have the same fields."""
    about: str
    messages: tuple[Message, ...]
    fields: tuple[ClosedField, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """The form as a JSON Schema; every field is required."""
        return {
            "title": self.form,
            "description": self.about,
            "type": "object",
            "properties": {f.name: {"description": f.description, "enum": list(f.options)} for f in self.fields},
            "required": [f.name for f in self.fields],
            "additionalProperties": False,
        }

    @cached_property
    def target(self) -> Target:
        """The form, compiled."""
        return load(self.schema, name=self.form)
