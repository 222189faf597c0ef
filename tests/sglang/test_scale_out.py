"""The recipe of docs/scale_out.md: two servers, a router, and conversations over them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from benchmarks.sglang.servers import free_port
from tests.support.tiny_model import write_tiny_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "scale_out"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny_model")
    write_tiny_model(folder, max_position_embeddings=2048, initializer_range=0.06)
    port = free_port()
    process = subprocess.Popen(
        [EXAMPLE / "serve.sh", folder],
        env={**os.environ, "PYTHON": sys.executable, "PORT": str(port), "POLICY": "manual"},
        start_new_session=True,
    )
    found = f"http://127.0.0.1:{port}"
    try:
        wait_for_workers(found, process)
        yield found
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def wait_for_workers(url, process):
    until = time.monotonic() + 600
    while process.poll() is None:
        assert time.monotonic() < until, "the servers did not come up"
        try:
            workers = httpx.get(f"{url}/workers", timeout=10).json()["workers"]
            if sum(worker["is_healthy"] for worker in workers) == 2:
                return
        except httpx.HTTPError:
            pass
        time.sleep(1)
    raise AssertionError(f"serve.sh ended with {process.returncode}")


def test_conversations_find_themselves_cached(url):
    done = subprocess.run(
        [sys.executable, EXAMPLE / "talk.py", url, "4"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^home-\d: ", done.stdout, re.MULTILINE)) == 8
    hits, looked_up = (int(each.replace(",", "")) for each in re.findall(r"([\d,]+)(?: of| prompt)", done.stdout))
    assert hits > looked_up / 2
