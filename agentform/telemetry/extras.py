"""Optional packages of this folder: a missing one is an error that names the extra."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from agentform.errors import MissingDependency

__all__ = ["needs"]


@contextmanager
def needs(extra: str, package: str) -> Generator[None]:
    """Imports inside the block come with `extra`.

    Raises:
        MissingDependency: one of them is not there.
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependency(f"{package} is needed here: pip install 'agentform[{extra}]'") from error
