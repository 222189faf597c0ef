"""How a value of a node can begin, by which arms and absence are told apart without writing a value."""

from __future__ import annotations

from collections.abc import Mapping

from agentform.messages import JsonValue
from agentform.schema.form import Choice, Fixed, Free, Node, Record, Repeat, Subset, Union
from agentform.schema.json_text import dumps

__all__ = ["openers_of"]

_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": ('"',),
    "number": ("-", *"0123456789"),
    "integer": ("-", *"0123456789"),
    "boolean": ("true", "false"),
    "array": ("[",),
    "object": ("{",),
    "null": ("null",),
}
_ANYTHING = ('"', "-", *"0123456789", "true", "false", "[", "{", "null")


def openers_of(node: Node) -> tuple[str, ...]:
    """Texts with which a value of this node can begin, pairwise not prefixes of one another."""
    match node:
        case Fixed():
            return (_opener(node.value),)
        case Choice():
            return tuple(dict.fromkeys(_opener(option) for option in node.options))
        case Free():
            return _free_openers(node)
        case Record():
            return ("{",)
        case Subset() | Repeat():
            return ("[",)
        case Union():
            return tuple(dict.fromkeys(opener for arm in node.arms for opener in openers_of(arm)))


def _opener(value: JsonValue) -> str:
    text = dumps(value)
    return text[0] if text[0] in '"[{' or text[0].isdigit() or text[0] == "-" else text


def _free_openers(node: Free) -> tuple[str, ...]:
    if isinstance(node.schema, bool):
        return _ANYTHING
    declared = node.schema.get("type")
    types = [declared] if isinstance(declared, str) else declared
    if not isinstance(types, list):
        return _ANYTHING
    return tuple(dict.fromkeys(opener for name in types for opener in _BY_TYPE.get(str(name), _ANYTHING)))
