from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def engine():
    """The demo model in float32, one for the whole session; for the marker `model`."""
    import torch

    from agentform.runtime.models.catalogue import CATALOGUE
    from agentform.runtime.models.resolve import ensure_weights
    from agentform.runtime.torch.engine import TorchEngine

    engine = TorchEngine(ensure_weights(CATALOGUE["smollm2-135m"], progress=False), dtype=torch.float32)
    yield engine
    engine.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The standard suites load the model; whoever has no weights may leave them out with ``-m "not model"``."""
    for item in items:
        if Path(item.fspath).name.startswith("test_standard_integration"):
            item.add_marker(pytest.mark.model)
