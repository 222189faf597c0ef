"""A tiny model, examples that it can learn, and an adapter that was trained on them once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentform.training.adapter import train_adapter
from agentform.training.settings import AdapterSettings, TrainedAdapter
from tests.support.gguf_of_model import write_gguf_of
from tests.support.tiny_model import write_tiny_model

COLOURS = ("red", "green", "blue", "white")
SETTINGS = AdapterSettings(epochs=12, learning_rate=5e-3, batch=4, patience=30, max_text_growth=5.0, text_weight=0.1)


@dataclass(frozen=True, kw_only=True)
class Taught:
    """Where everything lies."""

    home: Path
    model: Path
    gguf: Path
    examples: Path
    adapter: TrainedAdapter


def write_examples(path: Path, num: int = 16) -> Path:
    """Lines that name a colour, which is the right option."""
    rows = [
        {"text": f"{colour} {n}", "field": "colour", "options": COLOURS, "gold": colour}
        for n, colour in ((n, COLOURS[n % len(COLOURS)]) for n in range(num))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Taught]:
    root = tmp_path_factory.mktemp("taught")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTFORM_HOME", str(root / "home"))
        model = write_tiny_model(root / "model", max_position_embeddings=1024, initializer_range=0.05)
        gguf = write_gguf_of(model, root / "model.gguf")
        examples = write_examples(root / "colours.jsonl")
        adapter = train_adapter(
            str(root / "model"), examples, name="colours", gguf=gguf, settings=SETTINGS, num_threads=1
        )
        yield Taught(home=root / "home", model=root / "model", gguf=gguf, examples=examples, adapter=adapter)
