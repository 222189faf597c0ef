"""Fill one schema from several documents: records inside records, a list of items, closed and free fields.

    python examples/forms_from_documents.py [--documents FOLDER] [--limit N] [--json FILE]

Closed fields, the items of the list included, are scored; only names, streets and cities are written. A model of 135M
parameters gets some of it wrong, though never the form; a low probability says where to look.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentform import Filled, Usage, fill_sync, load_engine


class Address(BaseModel):
    street: Annotated[str, Field(max_length=40, description="Street and house number")]
    city: Annotated[str, Field(max_length=20, description="The city")]


class Customer(BaseModel):
    name: Annotated[str, Field(max_length=30, description="First and last name")]
    address: Address
    contact: Annotated[Literal["mail", "phone", "text message"], Field(description="How the customer is reached")]


class Item(BaseModel):
    product: Annotated[Literal["desk lamp", "mug", "photo frame"], Field(description="What is ordered")]
    quantity: Annotated[int, Field(ge=1, le=6, description="How many of it")]


class Order(BaseModel):
    """An order in a small web shop."""

    customer: Customer
    items: Annotated[list[Item], Field(min_length=1, max_length=3, description="What is ordered")]
    gift_wrap: Annotated[bool, Field(description="Whether it is a present")]
    express: Annotated[bool, Field(description="Whether it must be fast")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=Path, default=Path(__file__).parent / "documents")
    parser.add_argument("--limit", type=int, default=None, help="read the first so many documents only")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--json", type=Path, default=None, help="write the orders, one JSON object a line")
    options = parser.parse_args()

    console, engine = Console(), load_engine(options.model)
    usage, orders = Usage(), []
    for document in sorted(options.documents.glob("*.txt"))[: options.limit]:
        filled = fill_sync(engine, document.read_text(encoding="utf-8"), Order)
        console.print(table(document.name, filled))
        orders.append(filled.json_text)
        usage += filled.usage
    console.print(
        f"{len(orders)} orders, all valid; {usage.completion_tokens} tokens written, {usage.computed_tokens} computed"
    )
    if options.json is not None:
        options.json.write_text("\n".join([*orders, ""]), encoding="utf-8")


def table(title: str, filled: Filled[Order]) -> Table:
    """One row per leaf: how it was decided, and how sure the model was."""
    shown = Table("field", "value", "how", "probability", title=title)
    for leaf in filled.evidence:
        sure = "" if leaf.probability is None else f"{leaf.probability:.2f}"
        shown.add_row(leaf.pointer, Text(json.dumps(leaf.value, ensure_ascii=False)), leaf.how, sure)
    return shown


if __name__ == "__main__":
    main()
