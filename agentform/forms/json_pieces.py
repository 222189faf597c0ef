"""A form as JSON text: literals and free leaves in written order, and the whole text once all is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from agentform.schema.form import Choice, Fixed, Free, Node, Path, Record, Repeat, Subset, Union
from agentform.schema.json_text import dumps

__all__ = ["MEMBER", "Decisions", "Kind", "Piece", "Texts", "member_key", "pieces", "text_of"]

Kind = Literal["value", "arm", "presence", "member", "count", "action"]
Decisions: TypeAlias = Mapping[tuple[Path, Kind], int]
"""Index of the answer taken, per place and kind of question."""
Texts: TypeAlias = Mapping[Path, str]
"""JSON text of the free leaves that are written already."""
Piece: TypeAlias = str | Free
MEMBER = 0
"""The answer that says that an option is in the list."""


def pieces(root: Node, decisions: Decisions) -> list[Piece]:
    """The form as literal text and free leaves in written order; literals are never adjacent.

    Raises:
        KeyError: a choice on the way is not decided.
    """
    merged: list[Piece] = []
    for piece in _pieces(root, decisions):
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def _pieces(node: Node, decisions: Decisions) -> list[Piece]:
    match node:
        case Free():
            return [node]
        case Fixed():
            return [dumps(node.value)]
        case Choice():
            return [dumps(node.options[decisions[node.path, "value"]])]
        case Union():
            return _pieces(node.arms[decisions[node.path, "arm"]], decisions)
        case Record():
            return _record_pieces(node, decisions)
        case Subset():
            taken = [option for at, option in enumerate(node.options) if decisions[member_key(node, at)] == MEMBER]
            return [dumps(taken)]
        case Repeat():
            return _repeat_pieces(node, decisions)


def _repeat_pieces(node: Repeat, decisions: Decisions) -> list[Piece]:
    written: list[Piece] = []
    for item in node.items[: node.min_items + decisions[node.path, "count"]]:
        written += [", " if written else "", *_pieces(item, decisions)]
    return ["[", *written, "]"]


def member_key(node: Subset, at: int) -> tuple[Path, Kind]:
    """Where in `Decisions` it stands whether option `at` is in the list."""
    return ((*node.path, str(at)), "member")


def _record_pieces(node: Record, decisions: Decisions) -> list[Piece]:
    written: list[Piece] = []
    for field in node.fields:
        if field.required or decisions[(*node.path, field.name), "presence"]:
            written += [", " if written else "", f"{dumps(field.name)}: ", *_pieces(field.node, decisions)]
    return ["{", *written, "}"]


def text_of(node: Node, decisions: Decisions, texts: Texts) -> str | None:
    """The node's JSON text, or `None` while a choice or a free leaf in it is open."""
    try:
        parts = pieces(node, decisions)
    except KeyError:
        return None
    known = [part if isinstance(part, str) else texts.get(part.path) for part in parts]
    return None if None in known else "".join(part for part in known if part is not None)
