"""Turns the absence of an optional package into an error that says how to install it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from agentform.errors import MissingDependency

__all__ = ["torch_extra"]


@contextmanager
def torch_extra() -> Generator[None]:
    """Imports inside the block need the `torch` extra.

    Raises:
        MissingDependency: an optional package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or str(error)).split(".")[0]
        if package == "agentform":
            raise
        raise MissingDependency(
            f"{package} is needed to run models in this process: pip install 'agentform[torch]'"
        ) from error
