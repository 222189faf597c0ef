"""`agentform fill`: forms from texts, with how each value was decided, or as JSON lines for other programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from agentform._util.paths import cache_home
from agentform.cli.demo.view import evidence_table
from agentform.cli.engine_settings import EngineSettings
from agentform.cli.loading import opened
from agentform.cli.safe_text import SafeText
from agentform.deciders import load_decider
from agentform.errors import CallError, InvalidInput
from agentform.forms.decider import Decider
from agentform.forms.fill import Filled, Filler
from agentform.forms.label_prior import PriorStore
from agentform.messages import Usage
from agentform.runtime.engine import Engine, Sampling
from agentform.schema.json_text import dumps, loads, to_jsonable
from agentform.schema.target import Target
from agentform.turn.reasoning import thinking_of

__all__ = ["FillOptions", "fill_texts"]

_STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class FillOptions:
    """How forms are filled, from wherever the texts are."""

    instructions: str = ""
    effort: str | None = None
    """How long a model thinks first that was trained to; `None`: it does not."""
    sampling: Sampling = field(default_factory=Sampling)
    engine: EngineSettings = field(default_factory=EngineSettings)
    """How the model is loaded."""
    decider: str | None = None
    """The address of a decision model."""

    def loaded_decider(self) -> Decider | None:
        """The decision model.

        Raises:
            EngineError: `decider` is no address of one.
        """
        return None if self.decider is None else load_decider(self.decider)

    def filler(self, engine: Engine, target: Target, decider: Decider | None) -> Filler:
        """What fills the form."""
        return Filler(
            engine,
            target,
            instructions=self.instructions,
            sampling=self.sampling,
            priors=PriorStore(cache_home() / "priors"),
            think=thinking_of(self.effort) if self.effort is not None else False,
            decider=decider,
        )


def fill_texts(
    console: Console,
    target: Target,
    texts: Sequence[str],
    *,
    model: str,
    options: FillOptions | None = None,
    as_json: bool = False,
) -> int:
    """Fill the form from each text file (`-` is stdin) and print it; returns how many could not be filled.

    Raises:
        InvalidInput: a text cannot be read.
        EngineError: the model cannot be loaded or served, or `decider` is no address of a decision model.
    """
    read = [(name, _read(name)) for name in texts]
    options = options or FillOptions()
    second = options.loaded_decider()
    progress = Console(stderr=True)
    engine = opened(progress, model, options.engine)

    async def run() -> int:
        num_failed = 0
        try:
            filler = options.filler(engine, target, second)
            for number, (name, text) in enumerate(read, 1):
                try:
                    with progress.status(f"{name} ({number} of {len(read)}) …"):
                        filled = await filler.fill(text)
                except CallError as error:
                    num_failed += 1
                    _show_failure(console, name, error, as_json=as_json)
                    continue
                _show(console, name, filled, as_json=as_json)
        finally:
            with anyio.CancelScope(shield=True):
                await engine.aclose()
        return num_failed

    return anyio.run(run)


def _read(name: str) -> str:
    try:
        text = sys.stdin.read() if name == _STDIN else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the text {name}: {error}; give a UTF-8 file, or - for stdin") from error
    if not text.strip():
        raise InvalidInput(f"the text {name} is empty")
    return text.strip()


def _show(console: Console, name: str, filled: Filled[Any], *, as_json: bool) -> None:
    if as_json:
        evidence = [asdict(item) for item in filled.evidence]
        _print_json(
            {"text": name, "value": loads(filled.json_text), "evidence": evidence, "usage": asdict(filled.usage)}
        )
        return
    table = evidence_table(filled.evidence)
    table.title, table.caption = name, _costs(filled)
    table.title_justify = table.caption_justify = "left"
    console.print(table)


def _costs(filled: Filled[Any]) -> str:
    prompt: Usage = filled.prompt_usage
    cached = "an unknown number" if prompt.cached_tokens is None else f"{prompt.cached_tokens:,}"
    miss = f" ({prompt.miss})" if prompt.miss else ""
    return (
        f"{cached} of {prompt.prompt_tokens:,} prompt tokens from the cache{miss}, "
        f"{filled.usage.completion_tokens:,} tokens written"
    )


def _show_failure(console: Console, name: str, error: CallError, *, as_json: bool) -> None:
    if as_json:
        _print_json({"text": name, "error": {"type": type(error).__name__, "message": str(error)}})
    else:
        console.print(SafeText(f"{name}: {type(error).__name__}: {error}", style="red"), soft_wrap=True)


def _print_json(value: Any) -> None:
    """One line, as soon as it is known, whatever the terminal's width."""
    print(dumps(to_jsonable(value)), flush=True)
