from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Where Triton kernels run: a GPU, or else the CPU under Triton's interpreter."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
