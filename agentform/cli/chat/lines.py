"""Where a chat's lines come from: an editor with a history on a terminal, or whatever is piped in.

Without prompt_toolkit (extra "chat") a terminal has what Python's readline offers, and no history that is kept.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from agentform.cli.safe_text import SafeText, visible_text

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

__all__ = ["EditedLines", "Lines", "PlainLines", "lines_of"]


class Lines(Protocol):
    """Reads lines of the user's."""

    def read(self, prompt: str) -> str | None:
        """The next line; `None` at the end of the input. KeyboardInterrupt is the user's Ctrl-C."""
        ...

    def ask(self, prompt: str) -> str | None:
        """The same for what is no line of the conversation, such as a tool's result; an event loop may be running."""
        ...


def lines_of(console: Console, *, history: Path, commands: Sequence[str]) -> Lines:
    """An editor where there are a terminal and prompt_toolkit, else plain lines."""
    if not (console.is_terminal and sys.stdin.isatty()):
        return PlainLines(console)
    try:
        import prompt_toolkit  # noqa: F401
    except ImportError:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # the import is what makes `input` an editor
        return PlainLines(console)
    return EditedLines(history=history, commands=commands)


class PlainLines:
    """`input`; what is piped in is shown as if it were typed."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def read(self, prompt: str) -> str | None:
        """The next line; `None` at the end of the input."""
        try:
            line = self._console.input(SafeText(prompt, style="bold"))
        except EOFError:
            return None
        if not sys.stdin.isatty():
            self._console.print(SafeText(line))
        return line

    ask = read


class EditedLines:
    """prompt_toolkit: editing, a history in a file that its owner alone may read, commands that complete."""

    def __init__(self, *, history: Path, commands: Sequence[str], **terminal: Any) -> None:
        """`terminal`: further arguments of prompt_toolkit's session, such as `input` and `output`."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        kept = FileHistory(str(history)) if _writable(history) else InMemoryHistory()
        completer = WordCompleter(list(commands), sentence=True)
        suggest = AutoSuggestFromHistory()
        self._lines: PromptSession[str] = PromptSession(
            history=kept, completer=completer, auto_suggest=suggest, complete_while_typing=False, **terminal
        )
        self._asked: PromptSession[str] = PromptSession(history=InMemoryHistory(), **terminal)

    def read(self, prompt: str) -> str | None:
        """The next line; `None` at the end of the input."""
        return self._prompted(self._lines, prompt)

    def ask(self, prompt: str) -> str | None:
        """The same apart from the history."""
        return self._prompted(self._asked, prompt)

    def _prompted(self, session: PromptSession[str], prompt: str) -> str | None:
        try:
            # In a thread, as the event loop of a turn may be running in this one.
            return session.prompt(visible_text(prompt), in_thread=True)
        except EOFError:
            return None


def _writable(file: Path) -> bool:
    """Whether the history can be kept there; it holds what was said, so that nobody else may read it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        file.chmod(0o600)
    except OSError:
        return False
    return True
