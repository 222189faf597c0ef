"""The engine behind a model: given, or loaded when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from agentform import Engine, load_engine
from langchain_agentform.errors import langchain_errors

__all__ = ["EngineSource", "name_of"]


class EngineSource:
    """One engine for a model and all its copies."""

    def __init__(self, engine: Engine | None, name: str, options: Mapping[str, Any]) -> None:
        """`name` and `options` are for `load_engine`, if no engine is given."""
        self._engine = engine
        self._name = name
        self._options = dict(options)
        self._lock = threading.Lock()

    def get(self) -> Engine:
        """The engine; the first call may load it, which takes seconds.

        Raises:
            ModelError: it cannot be loaded.
        """
        with self._lock, langchain_errors():
            if self._engine is None:
                self._engine = load_engine(self._name, **self._options)
            return self._engine

    def __deepcopy__(self, memo: Any) -> EngineSource:
        return self


def name_of(engine: Engine | None, name: str) -> str:
    """The model's name. Raises ValueError if there is neither an engine nor a name."""
    if engine is None and not name:
        raise ValueError("give an engine, or the name of a model to load")
    return name or (engine.info.name if engine is not None else "")
