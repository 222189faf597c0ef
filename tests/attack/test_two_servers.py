"""Two server processes on one cache folder: neither needs the other, and one that is killed takes nothing with it."""

from __future__ import annotations

import contextlib

import httpx
import pytest

from benchmarks.attack.target import KEYS, attacked
from tests.support.gguf_zoo import write_tiny_gguf
from tests.support.waiting import Background, wait_until

CHAT = "/v1/chat/completions"
FIRST, SECOND = ("one two three four five six seven eight " * 4, "nine ten eleven twelve thirteen fourteen " * 4)


def cached_tokens(target, text, key=KEYS[0]):
    """How much of it was known; the conversation goes by its text."""
    body = {"model": target.model(), "messages": [{"role": "user", "content": text}], "max_tokens": 2}
    reply = target.post(CHAT, body | {"prompt_cache_key": text[:20]}, key=key)
    assert reply.status_code == 200, reply.text
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture
def server(tmp_path):
    pytest.importorskip("xllamacpp")
    model, folder = write_tiny_gguf("attention", tmp_path / "tiny.gguf"), tmp_path / "cache"

    def start(name):
        (tmp_path / name).mkdir()
        return attacked(str(model), tmp_path / name, cap_bytes=3 << 30, options=["--cache-dir", str(folder)])

    return start


def test_two_servers_share_a_cache_folder_and_one_is_killed(server, tmp_path):
    with contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(server(name)) for name in ("one", "other"))
        assert [cached_tokens(target, text) for target, text in ((one, FIRST), (other, SECOND))] == [0, 0]
        assert cached_tokens(other, FIRST, key=KEYS[1]) == 0
        wait_until(lambda: len(list((tmp_path / "cache").glob("[!.]*"))) >= 3, "entries of both")
        busy = Background(lambda: ask_until_it_ends(one))
        wait_until(lambda: one.log.read_bytes().count(b" POST ") >= 3, "requests on the one that is killed")
        one.process.kill()
        busy.done()
        assert cached_tokens(other, SECOND) > 0
        again = stack.enter_context(server("again"))
        assert cached_tokens(again, FIRST) > 0
        assert cached_tokens(again, SECOND) > 0
        assert other.is_healthy()


def ask_until_it_ends(target):
    with contextlib.suppress(httpx.HTTPError):
        for at in range(100_000):
            cached_tokens(target, f"{at} {FIRST}")
