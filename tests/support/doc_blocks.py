"""The fenced blocks of a Markdown page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "blocks_of", "commands_of"]

_FENCE = re.compile(r"^( *)```(\w+)?([^\n`]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block; `title` names the file that a reader is to write it into, or says that it is output."""

    language: str
    title: str
    text: str
    line: int

    @property
    def is_output(self) -> bool:
        """Whether it shows what the Python block before it prints."""
        return self.title == "Output"


def blocks_of(page: Path) -> list[Block]:
    """All blocks in their order; the indentation of a block in a list is taken off."""
    source = page.read_text(encoding="utf-8")
    return [
        Block(
            language=found[2] or "",
            title=title[1] if (title := _TITLE.search(found[3])) else "",
            text="".join(line.removeprefix(found[1]) for line in found[4].splitlines(keepends=True)),
            line=source.count("\n", 0, found.start(4)) + 1,
        )
        for found in _FENCE.finditer(source)
    ]


def commands_of(block: Block) -> list[str]:
    """What a console block has a reader type: lines after `$`, comments and continuations resolved."""
    if block.language != "console":
        return []
    joined = block.text.replace("\\\n", " ")
    lines = [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s{2,}#.*$", "", line).strip() for line in lines]
