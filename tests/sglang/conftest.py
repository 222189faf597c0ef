"""What runs with SGLang itself: `make test-sglang`. Starting it takes long, so its engines are shared."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore_glob = [] if find_spec("sglang") is not None else ["test_*.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.sglang)
            item.add_marker(pytest.mark.timeout(1200))  # servers take minutes to start on a slow machine


@pytest.fixture(scope="session")
def demo_on_sglang(weights_folder):
    """The demo model in SGLang, in bfloat16; for the marker `model`."""
    from agentform.runtime.sglang.embedded.engine import SGLangEngine

    engine = SGLangEngine(weights_folder, name="smollm2-135m", max_total_tokens=16_384, max_running_requests=16)
    yield engine
    engine.close()
