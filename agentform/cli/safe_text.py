"""Text of models, tools, files and users for a terminal."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text

from agentform._util.text import visible_text

__all__ = ["SafeText", "visible_text"]


class SafeText(Text):
    """rich's text whose control characters are shown, not sent. What a command prints of others' words is this."""

    def __init__(self, text: str = "", style: str | Style = "") -> None:
        super().__init__(visible_text(text), style=style)
