"""A form's fields in another order: models write arguments in the order of their own style."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agentform.schema.form import Node, Record, Repeat, Union
from agentform.schema.target import Target

__all__ = ["with_field_order"]


def with_field_order(target: Target, order: Callable[[str], str] | None) -> Target:
    """The target with the fields of every object sorted by `order` of their names; as it is without one."""
    if order is None:
        return target
    return replace(target, form=replace(target.form, root=_sorted(target.form.root, order)))


def _sorted(node: Node, order: Callable[[str], str]) -> Node:
    match node:
        case Record():
            fields = [replace(field, node=_sorted(field.node, order)) for field in node.fields]
            return replace(node, fields=tuple(sorted(fields, key=lambda field: order(field.name))))
        case Union():
            return replace(node, arms=tuple(_sorted(arm, order) for arm in node.arms))
        case Repeat():
            return replace(node, items=tuple(_sorted(item, order) for item in node.items))
        case _:
            return node
