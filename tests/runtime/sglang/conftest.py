from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.sglang.client.server import SGLangServer
from tests.support.fake_sglang import FakeSGLang, Listening, served

SOON = RetryPolicy(retries=3, first_wait_s=0.001, longest_wait_s=0.001)


@pytest.fixture(params=["server", "router"])
def fake(request, engine, tiny) -> FakeSGLang:
    """A server, or a router, that runs the tiny model."""
    return FakeSGLang(engine, tiny.folder, is_router=request.param == "router")


@pytest.fixture
def listening(fake) -> Listening:
    with served(fake) as found:
        yield found


@pytest.fixture
def connect(listening) -> Callable[..., SGLangServer]:
    """Makes clients of `fake` that do not wait long before they try again."""
    return lambda **options: SGLangServer(options.pop("url", listening.url), **{"retries": SOON, **options})


@pytest.fixture
def stack():
    with ExitStack() as found:
        yield found
