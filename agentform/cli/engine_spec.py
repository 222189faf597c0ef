"""What the command line is given by name: `module:attribute`, and engines."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

from agentform.errors import InvalidInput
from agentform.runtime.engine import Engine
from agentform.runtime.load import load_engine

__all__ = ["load_attribute", "open_engine"]

_REFERENCE = re.compile(r"(?!sglang:|adapter:)[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def load_attribute(module: str, attribute: str) -> Any:
    """An attribute of a module, which may lie in the working directory.

    Raises:
        InvalidInput: there is no such module or attribute.
    """
    # As with `python -m`, modules of the working directory count.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except AttributeError as error:
        raise InvalidInput(f"{module} has no attribute {attribute!r}") from error
    except ImportError as error:
        raise InvalidInput(f"cannot import {module!r}: {error}") from error
    return found


def open_engine(spec: str, **options: Any) -> Engine:
    """The engine for a catalogue name, model folder or hub id, or for `module:attribute`: an engine, or what makes one.

    `options` are `load_engine`'s, and go to what makes an engine.

    Raises:
        InvalidInput: the attribute is not there, or no engine.
        EngineError: the model cannot be loaded.
    """
    if not _REFERENCE.fullmatch(spec):
        return load_engine(spec, **options)
    module, _, attribute = spec.partition(":")
    found = load_attribute(module, attribute)
    made = found(**options) if callable(found) and not isinstance(found, Engine) else found
    if not isinstance(made, Engine):
        raise InvalidInput(f"{spec} is no engine, but a {type(made).__name__}")
    return made
