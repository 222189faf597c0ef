"""Fixtures that several folders of tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def weights_folder() -> Path:
    """The demo model's folder; tests that use it carry the marker `model`."""
    from agentform.runtime.catalogue import CATALOGUE
    from agentform.runtime.torch.weights import ensure_weights

    return ensure_weights(CATALOGUE["smollm2-135m"], progress=False)


@pytest.fixture(scope="session")
def demo_engine(weights_folder):
    """The demo model in float32, where results do not depend on batch shapes; for the marker `model`."""
    import torch

    from agentform.runtime.torch.engine import TorchEngine

    engine = TorchEngine(weights_folder, dtype=torch.float32)
    yield engine
    engine.close()
