"""The tools of MCP servers that a command line names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console

from agentform.cli.safe_text import SafeText
from agentform.tools.toolset import Toolbox

__all__ = ["connected", "show_left_out"]


@contextmanager
def connected(servers: Sequence[str], others: Toolbox | None = None) -> Iterator[Toolbox]:
    """The tools of all servers, each a URL or a command, after the `others`; inside the block they can be called.

    Raises:
        MissingDependency: the extra "mcp" is not installed.
        InvalidInput: a command is empty or cannot be split into words.
        ToolError: a server is not reached, or two tools share a name.
    """
    boxes = [others] if others is not None else []
    with ExitStack() as stack:
        boxes += [stack.enter_context(Toolbox.from_mcp(server, lenient=True)) for server in servers]
        toolbox = Toolbox(tool for box in boxes for tool in box.values())
        toolbox.left_out = tuple(item for box in boxes for item in box.left_out)
        yield toolbox


def show_left_out(console: Console, toolbox: Toolbox) -> None:
    """Say which tools of the servers no tool could be made of, and why."""
    for item in toolbox.left_out:
        console.print(SafeText(f"left out: {item.name}: {item.reason}", style="yellow"), soft_wrap=True)
