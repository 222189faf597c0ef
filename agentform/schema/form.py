"""The form: what a schema asks for, as a small closed set of frozen nodes.

A schema compiles into a tree of `Node`. Leaves are `Fixed`, `Choice` or `Free`; `Record` nests named fields;
`Union` picks one of several arms, `Subset` any of several values, `Repeat` repeats closed items. Nothing else exists,
so code that walks a form matches on these seven classes.

A leaf's *path* is the tuple of keys from the root; its *pointer* is the same as a JSON Pointer (RFC 6901).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from agentform.errors import Relaxation
from agentform.json_schema.pointer import Path, pointer
from agentform.messages import JsonValue

__all__ = [
    "Choice",
    "Field",
    "Fixed",
    "Free",
    "Leaf",
    "Node",
    "Path",
    "Record",
    "Relaxation",
    "Remark",
    "Repeat",
    "Subset",
    "Union",
    "leaves",
    "pointer",
]


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something unusual in a schema that is understood all the same."""

    pointer: str
    """The place in the schema, as a JSON Pointer."""
    problem: str
    change: str
    """What is usually written instead."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A leaf with one legal value: no model call."""

    path: Path
    value: JsonValue
    description: str = ""
    why: str = ""
    """One short clause for people: which keyword made it this kind of leaf."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A leaf that takes one of at least two known JSON values: scored, no token written."""

    path: Path
    options: tuple[JsonValue, ...]
    description: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Free:
    """A leaf that is generated under a grammar made from `schema`, which is self-contained ($defs included)."""

    path: Path
    schema: Mapping[str, JsonValue] | bool
    description: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One property of a record."""

    name: str
    node: Node
    required: bool = True
    """False: the property may be left out, and whether it is present is itself a choice."""
    depends_on: tuple[str, ...] = ()
    """Names of fields of the same record that are decided before this one and are in view when it is."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """An object with known properties, in the order in which they are written."""

    path: Path
    fields: tuple[Field, ...]
    description: str = ""
    rules: Mapping[str, JsonValue] | None = None
    """What the schema asks of the properties together, self-contained."""


@dataclass(frozen=True, kw_only=True)
class Union:
    """Exactly one of several arms; the arm is a choice made before the arm's own leaves.

    With a `discriminator` the arms are records whose property of that name holds the arm's label as a fixed value.
    """

    path: Path
    arms: tuple[Node, ...]
    labels: tuple[str, ...]
    """One short name per arm, unique: the discriminator's value, a model's title, or a JSON type."""
    discriminator: str | None = None
    description: str = ""
    why: str = ""
    rules: Mapping[str, JsonValue] | None = None
    """What the schema asks of the value besides being one of the arms, self-contained."""


@dataclass(frozen=True, kw_only=True)
class Subset:
    """A list of distinct known values: one yes or no per option, within the bounds on how many."""

    path: Path
    options: tuple[JsonValue, ...]
    min_items: int = 0
    max_items: int
    """At most `len(options)`."""
    description: str = ""
    why: str = ""
    rules: Mapping[str, JsonValue] | None = None
    """What the schema asks of the list as a whole, self-contained."""


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """A short list of closed items: how many is a choice, then the items are decided one after another."""

    path: Path
    items: tuple[Node, ...]
    """The item at each place, up to the longest list; all are alike but for their paths, and hold no free leaf."""
    min_items: int = 0
    description: str = ""
    why: str = ""
    rules: Mapping[str, JsonValue] | None = None
    """What the schema asks of the list as a whole, self-contained."""


Leaf: TypeAlias = Fixed | Choice | Free | Subset
Node: TypeAlias = Fixed | Choice | Free | Record | Union | Subset | Repeat


def leaves(node: Node) -> Iterator[Leaf]:
    """Every leaf below `node` in written order, all arms of unions included."""
    match node:
        case Fixed() | Choice() | Free() | Subset():
            yield node
        case Record():
            for item in node.fields:
                yield from leaves(item.node)
        case Union():
            for arm in node.arms:
                yield from leaves(arm)
        case Repeat():
            for item in node.items:
                yield from leaves(item)


@dataclass(frozen=True, kw_only=True)
class Form:
    """A compiled schema: the tree, the schema that the model is shown, and what is left to validation."""

    name: str
    root: Node
    schema: Mapping[str, JsonValue] | bool
    """The JSON Schema that the form was compiled from."""
    description: str = ""
    relaxed: tuple[Relaxation, ...] = field(default=())
    remarks: tuple[Remark, ...] = ()
