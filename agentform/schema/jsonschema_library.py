"""The `jsonschema` library, imported without its parser of IRIs, which takes a second to build and is seldom used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__all__ = ["jsonschema_library"]

_PARSER = "rfc3987_syntax"
_importing = threading.Lock()


def jsonschema_library() -> Any:
    """The `jsonschema` package; formats `iri` and `iri-reference` import their parser when they are first checked."""
    if "jsonschema" in sys.modules:
        return importlib.import_module("jsonschema")  # waits for another thread that is at it
    with _importing, _deferred(_PARSER):
        return importlib.import_module("jsonschema")


class _Deferred(ModuleType):
    """Stands in for a module while others import from it; each attribute is a function of the real one, got late."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def late(*args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)

        return late


@contextmanager
def _deferred(name: str) -> Generator[None]:
    """Functions imported from the module in this block import it when they are called."""
    if name in sys.modules or importlib.util.find_spec(name) is None:
        yield
        return
    stand_in = _Deferred(name)
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
