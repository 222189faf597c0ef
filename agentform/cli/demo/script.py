"""The customers' messages: a text file with one block per customer and one message per line."""

from __future__ import annotations

from pathlib import Path

from agentform.errors import InvalidInput

__all__ = ["default_script", "read_script"]


def default_script() -> Path:
    """The messages that come with agentform: beside this file in an installed package, in examples/ in a checkout."""
    installed = Path(__file__).parent / "messages.txt"
    checkout = Path(__file__).parents[3] / "examples" / "support_desk" / "messages.txt"
    return installed if installed.exists() else checkout


def read_script(file: Path) -> list[list[str]]:
    """The messages of each customer. Lines that start with `#` are comments.

    Raises:
        InvalidInput: the file cannot be read, is not UTF-8, or holds no message.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read messages from {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 text: byte {error.start} cannot be decoded") from error
    blocks = [_messages(block) for block in text.split("\n\n")]
    customers = [block for block in blocks if block]
    if not customers:
        raise InvalidInput(f"{file} holds no message: write one per line, with an empty line between customers")
    return customers


def _messages(block: str) -> list[str]:
    lines = (line.strip() for line in block.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
