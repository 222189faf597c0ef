from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend():
    """uvicorn and the clients run on asyncio."""
    return "asyncio"
