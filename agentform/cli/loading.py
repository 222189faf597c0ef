"""What a user sees while a model loads, and while it is found out how it leans."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console

from agentform.cli.engine_settings import EngineSettings
from agentform.cli.engine_spec import open_engine
from agentform.cli.safe_text import SafeText
from agentform.runtime.engine import Engine

__all__ = ["loading", "opened", "show_priors"]

T = TypeVar("T")


def opened(console: Console, model: str, settings: EngineSettings | None = None) -> Engine:
    """`open_engine`, with what goes on shown on the console.

    Raises:
        InvalidInput: the attribute is not there, or no engine.
        EngineError: the model cannot be loaded; InvalidRequest among them, for an engine that takes no such option.
    """
    show_priors(console)
    given = (settings or EngineSettings()).given()
    return loading(console, model, lambda: open_engine(model, **given))


def loading(console: Console, model: str, load: Callable[[], T]) -> T:
    """What `load` returns; on a terminal it is shown that it goes on."""
    if not console.is_terminal:
        console.print(SafeText(f"loading {model} …", style="dim"), soft_wrap=True)
    with console.status(SafeText(f"loading {model} …")):
        return load()


def show_priors(console: Console) -> None:
    """Say it on the console when label priors are measured: the first answer waits for them."""
    logger = logging.getLogger("agentform.priors")
    for handler in [each for each in logger.handlers if isinstance(each, _Shown)]:
        logger.removeHandler(handler)
    logger.addHandler(_Shown(console))
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Shown(logging.Handler):
    """Prints what is logged as a dim line."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(SafeText(record.getMessage(), style="dim"), soft_wrap=True)
