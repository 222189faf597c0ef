"""Turns the absence of an optional package into an error that says how to install it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from agentform._util.install import install_line
from agentform.errors import MissingDependency

__all__ = ["fetch_extra", "torch_extra"]


def torch_extra() -> AbstractContextManager[None]:
    """Imports inside the block need the `torch` extra.

    Raises:
        MissingDependency: an optional package is not installed.
    """
    return _extra(install_line("torch"))


def fetch_extra() -> AbstractContextManager[None]:
    """Imports inside the block need the `torch` or the `llama` extra.

    Raises:
        MissingDependency: an optional package is not installed.
    """
    return _extra(f"{install_line('torch')}, or {install_line('llama')} for GGUF files")


@contextmanager
def _extra(command: str) -> Generator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or str(error)).split(".")[0]
        if package == "agentform":
            raise
        raise MissingDependency(f"{package} is needed to run models in this process: {command}") from error
