"""The command line."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run `agentform` with the arguments of the process."""
    from agentform.cli.app import main as run

    run()
