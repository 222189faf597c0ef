from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import Gate
from tests.support.tiny_model import write_tiny_model


@dataclass(frozen=True)
class Tiny:
    """The tiny model as a folder and as transformers runs it."""

    folder: Path
    reference: PreTrainedModel


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Tiny:
    folder = tmp_path_factory.mktemp("tiny_model")
    return Tiny(folder, write_tiny_model(folder))


@pytest.fixture
def make_engine(tiny):
    """Engines of the tiny model in float32; `positions` sets the KV budget."""
    made: list[TorchEngine] = []

    def make(*, positions: int = 4096, **options) -> TorchEngine:
        each = 3 * 2 * 2 * 8 * 4  # layers, key and value, kv heads, head dim, bytes
        engine = TorchEngine(
            tiny.folder, dtype=torch.float32, kv_budget_bytes=positions * each, **{"num_threads": 1} | options
        )
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(make_engine) -> TorchEngine:
    return make_engine()


@pytest.fixture
def gate(monkeypatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """The tiny model's products are too small to share among threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
