"""A form as JSON text: literals and free leaves in written order, and the whole text once all is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from agentform.schema.form import Choice, Fixed, Free, Node, Path, Record, Union
from agentform.schema.json_text import dumps

__all__ = ["Decisions", "Kind", "Piece", "Texts", "pieces", "text_of"]

Kind = Literal["value", "arm", "presence", "action"]
Decisions: TypeAlias = Mapping[tuple[Path, Kind], int]
"""Index of the answer taken, per place and kind of question."""
Texts: TypeAlias = Mapping[Path, str]
"""JSON text of the free leaves that are written already."""
Piece: TypeAlias = str | Free


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
