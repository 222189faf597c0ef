"""What mkdocs runs on each page: docstrings mark a block that follows with `::`, which Markdown does not know."""

from __future__ import annotations

from typing import Any

__all__ = ["on_page_content"]


def on_page_content(html: str, **context: Any) -> str:
    """The page without the marks; the blocks after them are indented, and so are blocks already."""
    return html.replace("<p>::</p>", "").replace("::</p>", ":</p>")
