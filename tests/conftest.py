"""Fixtures that several folders of tests share."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.watchdog import EXIT_S, end_after

# Read when triton is first imported: without a GPU its kernels run under the interpreter.
if not any(Path(place).exists() for place in ("/proc/driver/nvidia", "/dev/nvidiactl")):
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Workers of a run do not fight for cores, and sums are made in one order; read when torch is first imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Each test's GGUF file is a new one; those that are about the first load switch it on.
os.environ.setdefault("AGENTFORM_TRIAL_LOAD", "0")

# Machines are shared: how long an example takes says nothing of whether it is right.
settings.register_profile("agentform", deadline=None)
settings.load_profile("agentform")


def pytest_unconfigure() -> None:
    end_after(EXIT_S)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Who runs what, where several processes share the tests."""
    from tests.support.scheduler import EnginesStayTogether

    return EnginesStayTogether(config, log)


@pytest.fixture(scope="session")
def weights_folder() -> Path:
    """The demo model's folder; tests that use it carry the marker `model`."""
    from agentform.runtime.models.catalogue import CATALOGUE
    from agentform.runtime.models.resolve import ensure_weights

    return ensure_weights(CATALOGUE["smollm2-135m"], progress=False)


@pytest.fixture(scope="session")
def demo_engine(weights_folder):
    """The demo model in float32, where results do not depend on batch shapes; for the marker `model`."""
    import torch

    from agentform.runtime.torch.engine import TorchEngine

    engine = TorchEngine(weights_folder, dtype=torch.float32)
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def _priors_of_this_test_alone(tmp_path_factory, monkeypatch):
    """Engines that a test loads measure their label priors themselves."""
    monkeypatch.setattr(
        "agentform.runtime.load.cache_home", lambda: tmp_path_factory.getbasetemp() / os.urandom(8).hex()
    )


@pytest.fixture(autouse=True)
def _what_a_command_shows_ends_with_its_test():
    """The command line says for the rest of the process when priors are measured; tests share a process."""
    logger = logging.getLogger("agentform.priors")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """Async tests run on both event loops, unless a folder or a file says otherwise."""
    return request.param
