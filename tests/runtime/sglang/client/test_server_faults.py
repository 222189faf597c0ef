"""What goes wrong on the way to a server, and when it is asked again."""

from __future__ import annotations

import json
import shutil
import socket
from contextlib import aclosing, contextmanager

import anyio
import pytest

from agentform.errors import (
    DeadlineExceeded,
    EngineError,
    EngineUnauthorized,
    EngineUnavailable,
    InvalidRequest,
    ModelMismatch,
    ModelNotFound,
    ReplyMalformed,
)
from agentform.runtime.engine import Branch, GenerateRequest, ScoreRequest
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.sglang.client.server import SGLangServer
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.runtime.sglang.conftest import SOON
from tests.support.engines import complete
from tests.support.fake_sglang import FakeSGLang, Fault, held_port, served
from tests.support.waiting import PATIENCE_S, background, eventually

pytestmark = pytest.mark.anyio
PROMPT = tuple(range(20, 60))
SCORE = ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(), candidates=(1, 2)),))
SERVER = pytest.mark.parametrize("fake", ["server"], indirect=True)
"""Where a router makes no difference."""
FULL = b'data: {"meta_info": {"finish_reason": {"type": "abort", "status_code": 503, "message": "queue is full"}}}\n\n'


@SERVER
@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_no_room_is_asked_again(connect, fake, engine, status):
    async with connect() as server:
        fake.faults.extend([Fault(status=status)] * 3)
        assert (await complete(server, PROMPT, 5)).token_ids == (await complete(engine, PROMPT, 5)).token_ids
        fake.faults.extend([Fault(status=status)] * 3)
        assert len((await server.score(SCORE)).logprobs[0]) == 2
    assert len(fake.requests_of()) == 8


async def test_a_full_queue_that_shows_in_the_stream_is_asked_again(connect, fake):
    async with connect() as server:
        fake.faults.extend([Fault(event=FULL)] * 2)
        assert (await complete(server, PROMPT, 5)).last.finish
    assert len(fake.requests_of()) == 3


@SERVER
async def test_after_the_last_try_it_is_unavailable(connect, fake):
    async with connect() as server:
        fake.faults.extend([Fault(status=503)] * 8)
        with pytest.raises(EngineUnavailable, match=r"cannot serve this now \(503\): broken on purpose; tried 4 times"):
            await complete(server, PROMPT, 5)
        assert len(fake.requests_of()) == 4
        with pytest.raises(EngineUnavailable, match="tried 4 times"):
            await server.score(SCORE)


@SERVER
async def test_a_long_retry_after_is_not_waited_for(connect, fake):
    async with connect() as server:
        fake.faults.append(Fault(status=503, headers={"retry-after": "3600"}))
        with pytest.raises(EngineUnavailable):
            await server.score(SCORE)
    assert len(fake.requests_of()) == 1


@SERVER
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(status=400), InvalidRequest),
        (Fault(status=403), EngineUnauthorized),
        (Fault(status=404), EngineError),
        (Fault(status=500), EngineError),
        (Fault(status=302, headers={"location": "http://elsewhere"}), EngineError),
        (Fault(status=200, body=b"<html>"), ReplyMalformed),
    ],
)
async def test_what_will_not_change_is_asked_once(connect, fake, fault, kind):
    async with connect() as server:
        for work in (lambda: complete(server, PROMPT, 5), lambda: server.score(SCORE)):
            fake.asked.clear()
            fake.faults.append(fault)
            with pytest.raises(kind) as caught:
                await work()
            assert type(caught.value) is kind
            assert len(fake.requests_of()) == 1


LACKING = b'data: {"output_ids": [], "meta_info": {"completion_tokens": 4}}\n\n'


@SERVER
@pytest.mark.parametrize("event", [b"data: nonsense\n\n", b"data: [1]\n\n", LACKING])
async def test_events_that_make_no_sense_are_a_typed_error(connect, fake, event):
    async with connect() as server:
        fake.faults.append(Fault(event=event))
        with pytest.raises(EngineError) as caught:
            await complete(server, PROMPT, 5)
        assert type(caught.value) in (EngineError, ReplyMalformed)


SHORT = b'{"meta_info": {"output_token_ids_logprobs": [[[1]]]}}'


@pytest.mark.parametrize("body", [b"{}", b"[]", b"[{}, {}, {}]", SHORT])
async def test_scores_that_make_no_sense_are_a_typed_error(connect, fake, body):
    async with connect() as server:
        fake.faults.append(Fault(status=200, body=body))
        with pytest.raises(EngineError) as caught:
            await server.score(SCORE)
        assert type(caught.value) in (EngineError, ReplyMalformed)


@SERVER
@pytest.mark.parametrize("fault", [Fault(after_events=2), Fault(after_events=2, ends=True)])
async def test_a_stream_that_breaks_off_is_never_asked_again(connect, fake, fault):
    async with connect() as server:
        fake.faults.append(fault)
        got = []

        async def read():
            async for chunk in server.generate(GenerateRequest(prompt_ids=PROMPT, max_tokens=30)):
                got.extend(chunk.token_ids)

        with pytest.raises(EngineUnavailable):
            await read()
        assert len(got) == 2
        assert len(fake.requests_of()) == 1
        assert (await complete(server, PROMPT, 5)).last.finish


@SERVER
async def test_a_stream_that_breaks_off_before_anything_came_is_asked_again(connect, fake):
    async with connect() as server:
        fake.faults.append(Fault(after_events=0))
        assert (await complete(server, PROMPT, 5)).last.finish
    assert len(fake.requests_of()) == 2


@SERVER
async def test_the_deadline_ends_waiting_for_room(connect, fake):
    patient = RetryPolicy(retries=1000, first_wait_s=0.01, longest_wait_s=0.01)
    async with connect(retries=patient) as server:
        fake.faults.extend([Fault(status=503)] * 1000)
        answer = await complete(server, PROMPT, 5, deadline_s=0.1)
        assert (answer.last.finish, answer.token_ids, answer.usage.cached_tokens) == ("deadline", (), None)
        with pytest.raises(DeadlineExceeded):
            await server.score(ScoreRequest(prompt_ids=PROMPT, branches=SCORE.branches, deadline_s=0.1))


@SERVER
async def test_the_deadline_ends_waiting_for_a_reply(connect, fake):
    async with connect() as server:
        fake.faults.extend([Fault(hang=True)] * 2)
        assert (await complete(server, PROMPT, 5, deadline_s=0.1)).last.finish == "deadline"
        with pytest.raises(DeadlineExceeded):
            await server.score(ScoreRequest(prompt_ids=PROMPT, branches=SCORE.branches, deadline_s=0.1))


@SERVER
async def test_silence_is_unavailable_and_not_asked_again(connect, fake):
    async with connect(read_timeout_s=0.2) as server:
        fake.faults.append(Fault(hang=True))
        with pytest.raises(EngineUnavailable, match="silent"):
            await server.score(SCORE)
    assert len(fake.requests_of()) == 1


async def test_a_server_that_comes_back_is_asked_again(fake):
    patient = RetryPolicy(retries=100_000, first_wait_s=0.01, longest_wait_s=0.01)
    with held_port() as port:
        with served(fake, port=port) as first:
            server = SGLangServer(first.url, retries=patient)
            await complete(server, PROMPT, 2)
        async with anyio.create_task_group() as group:
            group.start_soon(complete, server, PROMPT, 5)
            group.start_soon(server.score, SCORE)
            await anyio.sleep(0.05)
            with served(fake, port=port):
                await eventually(lambda: len(fake.requests_of()) >= 3)
                await server.score(SCORE)
    await server.aclose()


@SERVER
async def test_another_model_after_an_outage_is_not_taken_for_the_same(fake):
    patient = RetryPolicy(retries=100_000, first_wait_s=0.01, longest_wait_s=0.01)
    failed: list[EngineError] = []

    async def work():
        try:
            await server.score(SCORE)
        except EngineError as error:
            failed.append(error)

    with held_port() as port:
        with served(fake, port=port) as first:
            server = SGLangServer(first.url, retries=patient)
            await complete(server, PROMPT, 2)
        fake.weight_version = "trained on"
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await anyio.sleep(0.05)
            with served(fake, port=port):
                await eventually(lambda: failed)
    assert isinstance(failed[0], ModelMismatch)
    assert len(fake.requests_of()) == 1
    await server.aclose()


@contextmanager
def dropping():
    """Accepts connections and closes them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run():
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return

        with background(run):
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                listener.shutdown(socket.SHUT_RDWR)


def test_nobody_there():
    with held_port() as port, pytest.raises(EngineUnavailable, match=r"cannot be reached: .*; tried 4 times"):
        SGLangServer(f"http://127.0.0.1:{port}", retries=SOON)


def test_somebody_else_there():
    with dropping() as url, pytest.raises(EngineUnavailable, match="cannot be reached"):
        SGLangServer(url, retries=SOON)


@pytest.mark.parametrize("status", [200, 404, 500])
@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"{}", b'{"model_path": 3, "data": 3}', b"<html>"])
def test_whatever_answers_at_the_address_is_a_typed_error(body, status):
    with served(Anything(body, status)) as listening, pytest.raises(EngineError):
        SGLangServer(listening.url, retries=SOON)


class Anything:
    """Says the same to every request."""

    def __init__(self, body, status) -> None:
        async def app(scope, receive, send):
            assert scope["type"] == "http"
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": body})

        self.app = app


@pytest.mark.parametrize("url", ["localhost:30000", "ftp://x", "http://", "http://[::1", "sglang:x"])
def test_addresses_that_are_none(url):
    with pytest.raises(InvalidRequest, match="address"):
        SGLangServer(url)


@SERVER
def test_another_tokenizer_is_noticed_before_any_token_id_is_sent(fake, listening, other_tokenizer):
    with pytest.raises(ModelMismatch, match="the tokenizer here is not the one of"):
        SGLangServer(listening.url, tokenizer=other_tokenizer)
    assert fake.requests_of() == []


@pytest.fixture
def other_tokenizer(tiny, tmp_path) -> HFTokenizer:
    """The tiny one with two ids exchanged."""
    shutil.copytree(tiny.folder, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "tokenizer.json"
    facts = json.loads(file.read_text())
    vocabulary = facts["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    file.write_text(json.dumps(facts))
    return HFTokenizer(tmp_path)


def test_a_context_that_the_server_does_not_have(engine, tiny):
    fake = FakeSGLang(engine, tiny.folder)
    with served(fake) as listening, pytest.raises(ModelMismatch, match="256 tokens, not the 512"):
        SGLangServer(listening.url, context_tokens=512)


@SERVER
def test_a_tokenizer_that_is_elsewhere_has_to_be_named(fake, listening, tiny):
    fake.folder = tiny.folder / "elsewhere"
    with pytest.raises(ModelNotFound, match="give tokenizer="):
        SGLangServer(listening.url)
    SGLangServer(listening.url, tokenizer=tiny.folder)


async def test_leaving_early_ends_the_request_there(connect, fake):
    async with connect() as server:
        async with aclosing(server.generate(GenerateRequest(prompt_ids=PROMPT, max_tokens=200))) as stream:
            await anext(stream)
        rid = fake.requests_of()[0]["rid"]
        with anyio.fail_after(PATIENCE_S):
            while rid not in fake.disconnected:  # noqa: ASYNC110 - a thread's state
                await anyio.sleep(0.005)
    assert fake.aborted == ([] if fake.is_router else [rid])
