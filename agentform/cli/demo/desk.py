"""A support desk: three tools that really do something, over one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from agentform.tools.tool import tool

__all__ = ["INSTRUCTIONS", "SupportDesk"]

INSTRUCTIONS = "You are the support desk of a small web shop. Be brief and friendly."

Category = Literal["billing", "delivery", "technical", "account"]
Day = Literal["today", "tomorrow", "monday", "tuesday", "wednesday", "thursday", "friday"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT, status TEXT, carrier TEXT);
CREATE TABLE IF NOT EXISTS tickets (
    id INTEGER PRIMARY KEY, category TEXT, urgent INTEGER, refund INTEGER, priority INTEGER, summary TEXT);
CREATE TABLE IF NOT EXISTS callbacks (id INTEGER PRIMARY KEY, day TEXT, hour INTEGER, UNIQUE (day, hour));
"""
_ORDERS = (
    ("AB-1042", "desk lamp", "on its way", "postal service"),
    ("CD-2077", "four blue mugs", "lost by the carrier", "courier"),
    ("EF-3001", "photo frame", "not shipped yet", "none"),
)


class SupportDesk:
    """The desk's database and the tools over it."""

    def __init__(self, database: Path) -> None:
        self._database = database
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.executescript(_SCHEMA)
            connection.executemany("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?)", _ORDERS)

    def tools(self) -> list[Callable[..., Any]]:
        """The tools, ready for an agent."""
        return [tool(self.open_ticket), tool(self.look_up_order), tool(self.schedule_callback)]

    def open_ticket(
        self,
        category: Annotated[Category, Field(description="What the problem is about")],
        urgent: Annotated[bool, Field(description="Whether it must be solved today")],
        refund: Annotated[bool, Field(description="Whether the customer wants money back")],
        priority: Annotated[int, Field(ge=1, le=5, description="1 is low, 5 is high")],
        summary: Annotated[str, Field(min_length=8, max_length=100, description="The problem in one sentence")],
    ) -> str:
        """Open a ticket for a complaint or a problem."""
        row = self._write(
            "INSERT INTO tickets (category, urgent, refund, priority, summary) VALUES (?, ?, ?, ?, ?)",
            (category, urgent, refund, priority, summary),
        )
        return f"Ticket {row} is open with the {category} team."

    def look_up_order(
        self, order_id: Annotated[str, Field(pattern=r"^[A-Z]{2}-[0-9]{4}$", description="Two letters and four digits")]
    ) -> dict[str, str]:
        """Find out where an order is."""
        with closing(sqlite3.connect(self._database)) as connection:
            found = connection.execute("SELECT item, status, carrier FROM orders WHERE id = ?", (order_id,)).fetchone()
        if found is None:
            raise LookupError(f"there is no order {order_id}")
        return {"order": order_id, **dict(zip(("item", "status", "carrier"), found, strict=True))}

    def schedule_callback(
        self,
        day: Annotated[Day, Field(description="The day to call")],
        hour: Annotated[int, Field(ge=9, le=17, description="The hour to call, on a 24-hour clock")],
    ) -> str:
        """Call the customer back by phone."""
        try:
            self._write("INSERT INTO callbacks (day, hour) VALUES (?, ?)", (day, hour))
        except sqlite3.IntegrityError:
            raise ValueError(f"{day} at {hour}:00 is taken already") from None
        return f"We will call on {day} at {hour}:00."

    def _write(self, statement: str, values: tuple[object, ...]) -> int:
        with closing(sqlite3.connect(self._database)) as connection, connection:
            return connection.execute(statement, values).lastrowid or 0
