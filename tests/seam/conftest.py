"""One suite for every engine behind the seam. Those in this process run always, SGLang's where SGLang is installed.

A further engine is a fixture `NAME_engine` and its name in `ENGINES`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest
import torch
from transformers import PreTrainedModel

from agentform.runtime.engine import Engine
from agentform.runtime.llama_cpp.engine import LlamaCppEngine
from agentform.runtime.llama_server.engine import LlamaServer
from agentform.runtime.sglang.client.server import SGLangServer
from agentform.runtime.torch.engine import TorchEngine
from tests.support.gguf_of_model import write_gguf_of
from tests.support.llama_server import llama_server
from tests.support.tiny_model import write_tiny_model
from tests.support.waiting import PATIENCE_S

ENGINES = ["torch", "double"]
if find_spec("xllamacpp") is not None:
    ENGINES += ["llama_cpp", "llama_server"]
if find_spec("sglang") is not None:
    ENGINES += ["sglang", "server", "router"]
CONTEXT_TOKENS = 512
SEEN = 3
_seeds = count()


def fresh_prompt(num_tokens: int = 40) -> tuple[int, ...]:
    """A prompt of which no engine has seen more than the first `SEEN` tokens; none of its tokens ends a turn."""
    return tuple(random.Random(next(_seeds)).choices(range(3, 260), k=num_tokens))


@dataclass(frozen=True)
class SeamModel:
    """The model that all engines serve, and transformers' own run of it in the same type."""

    folder: Path
    reference: PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class Served:
    """An engine, and how to see that no request holds anything of it any more."""

    engine: Engine
    num_running: Callable[[], Awaitable[int]]

    async def settled(self) -> None:
        """Wait until every request is gone."""
        with anyio.fail_after(PATIENCE_S):
            while await self.num_running():  # noqa: ASYNC110 - another process's state
                await anyio.sleep(0.01)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """The tiny model's products are too small to share among threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def seam_model(tmp_path_factory) -> SeamModel:
    folder = tmp_path_factory.mktemp("seam_model")
    # With weights as small as trained ones, bfloat16 costs less than what the tests allow.
    model = write_tiny_model(folder, endless=True, max_position_embeddings=CONTEXT_TOKENS, initializer_range=0.06)
    return SeamModel(folder, model.to(torch.bfloat16))


@pytest.fixture(scope="session")
def torch_engine(seam_model):
    engine = TorchEngine(seam_model.folder, dtype=torch.bfloat16, kv_budget_bytes=1 << 20, num_threads=1)

    async def num_running() -> int:
        return engine.statistics().live_tokens + engine.worker_is_busy()

    yield Served(engine=engine, num_running=num_running)
    engine.integrity()
    engine.close()


@pytest.fixture(scope="session")
def llama_cpp_engine(seam_model, tmp_path_factory):
    gguf = write_gguf_of(deepcopy(seam_model.reference), tmp_path_factory.mktemp("seam_gguf") / "seam.gguf")
    engine = LlamaCppEngine(gguf, kv_budget_bytes=1 << 20, num_threads=1)

    async def num_running() -> int:
        return engine.statistics().live_tokens + engine.worker_is_busy()

    yield Served(engine=engine, num_running=num_running)
    engine.integrity()
    engine.close()


@pytest.fixture(scope="session")
def llama_server_engine(seam_model, tmp_path_factory):
    """Over HTTP to llama.cpp's own server, as a process."""
    gguf = write_gguf_of(deepcopy(seam_model.reference), tmp_path_factory.mktemp("seam_gguf") / "seam.gguf")
    with llama_server(gguf, context_tokens=CONTEXT_TOKENS, num_slots=4) as url:

        async def num_running() -> int:
            slots = (await anyio.to_thread.run_sync(httpx.get, f"{url}/slots")).json()
            return sum(slot["is_processing"] for slot in slots)

        engine = LlamaServer(url)
        yield Served(engine=engine, num_running=num_running)
        anyio.run(engine.aclose)


@pytest.fixture(scope="session")
def sglang_engine(seam_model):
    from agentform.runtime.sglang.embedded.engine import SGLangEngine

    engine = SGLangEngine(seam_model.folder, max_total_tokens=4096, max_running_requests=8)
    yield Served(engine=engine, num_running=engine.num_running)
    engine.close()


@pytest.fixture(scope="session")
def double_engine(torch_engine, seam_model):
    """Over HTTP to what looks like SGLang and is the embedded engine."""
    from tests.support.fake_sglang import FakeSGLang, served

    with served(FakeSGLang(torch_engine.engine, seam_model.folder)) as listening:
        engine = SGLangServer(listening.url)
        yield Served(engine=engine, num_running=torch_engine.num_running)
        anyio.run(engine.aclose)


@pytest.fixture(scope="session")
def sglang_server(seam_model):
    """SGLang's own server, as a process."""
    from benchmarks.sglang.servers import server

    with server(
        seam_model.folder, max_total_tokens=4096, max_running_requests=8, load_snapshot_publish_interval=1
    ) as running:
        yield running.url


@pytest.fixture(scope="session")
def server_engine(sglang_server):
    with over_http(sglang_server, sglang_server) as found:
        yield found


@pytest.fixture(scope="session")
def router_engine(sglang_server):
    """SGLang's router before the same server."""
    from benchmarks.sglang.servers import router

    with router([sglang_server], policy="cache_aware") as running, over_http(running.url, sglang_server) as found:
        yield found


@contextmanager
def over_http(url, server):
    async def num_running() -> int:
        loads = (await anyio.to_thread.run_sync(httpx.get, f"{server}/v1/loads")).json()["loads"]
        return sum(load["num_running_reqs"] + load["num_waiting_reqs"] for load in loads)

    engine = SGLangServer(url)
    yield Served(engine=engine, num_running=num_running)
    anyio.run(engine.aclose)


_NEED_SGLANG = ("sglang", "server", "router")


@pytest.fixture(
    scope="session",
    params=[pytest.param(each, marks=[pytest.mark.sglang] * (each in _NEED_SGLANG)) for each in ENGINES],
)
def served(request) -> Served:
    return request.getfixturevalue(f"{request.param}_engine")


@pytest.fixture(scope="session")
def engine(served) -> Engine:
    return served.engine
