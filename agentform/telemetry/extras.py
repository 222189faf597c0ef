"""Optional packages of this folder: a missing one is an error that names the extra."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from agentform._util.install import install_line
from agentform.errors import InvalidInput, MissingDependency

__all__ = ["needs", "registering"]


@contextmanager
def needs(extra: str, package: str) -> Generator[None]:
    """Imports inside the block come with `extra`.

    Raises:
        MissingDependency: one of them is not there.
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependency(f"{package} is needed here: {install_line(extra)}") from error


@contextmanager
def registering(what: str) -> Generator[None]:
    """Metrics made inside the block go into a registry of prometheus-client.

    Raises:
        InvalidInput: the registry has some of them already.
    """
    try:
        yield
    except ValueError as error:
        raise InvalidInput(
            f"this registry has metrics of {what} already; one export serves any number: {error}"
        ) from error
