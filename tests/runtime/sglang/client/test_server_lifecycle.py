"""Event loops that come and go, closing, cancellation, keys and certificates."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from agentform.errors import EngineClosed, EngineUnauthorized, EngineUnavailable, InvalidRequest
from agentform.runtime.engine import Branch, GenerateRequest, ScoreRequest
from agentform.runtime.sglang.client.server import SGLangServer
from tests.runtime.sglang.conftest import SOON
from tests.support.engines import complete
from tests.support.fake_sglang import FakeSGLang, Fault, served
from tests.support.waiting import PATIENCE_S

PROMPT = tuple(range(20, 60))
SCORE = ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(), candidates=(1, 2)),))
CERTIFICATES = Path(__file__).parents[3] / "support" / "certificates"
TLS = {"ssl_certfile": CERTIFICATES / "server.pem", "ssl_keyfile": CERTIFICATES / "server.pem"}


def test_one_engine_serves_event_loops_that_come_and_go(connect, engine):
    server = connect()
    expected = anyio.run(complete, engine, PROMPT, 5).token_ids
    for backend in ("asyncio", "trio", "asyncio", "trio"):
        assert anyio.run(complete, server, PROMPT, 5, backend=backend).token_ids == expected
    anyio.run(server.aclose)


@pytest.mark.anyio
async def test_closed_is_closed(connect):
    server = connect()
    await complete(server, PROMPT, 1)
    await server.aclose()
    await server.aclose()
    with pytest.raises(EngineClosed):
        await complete(server, PROMPT, 1)
    with pytest.raises(EngineClosed):
        await server.score(SCORE)
    with pytest.raises(EngineClosed):
        await server.check_health()


@pytest.mark.anyio
async def test_closing_ends_what_is_in_flight(connect, fake):
    server = connect()
    fake.faults.extend([Fault(hang=True)] * 2)
    ended = []

    async def run(work):
        try:
            await work
        except EngineClosed:
            ended.append(work)

    async with anyio.create_task_group() as group:
        group.start_soon(run, complete(server, PROMPT, 5))
        group.start_soon(run, server.score(SCORE))
        with anyio.fail_after(PATIENCE_S):
            while len(fake.requests_of()) < 2:  # noqa: ASYNC110 - a thread's state
                await anyio.sleep(0.005)
        await server.aclose()
    assert len(ended) == 2


@pytest.mark.anyio
async def test_closing_from_another_loop_ends_what_is_in_flight(connect, fake):
    server = connect()
    fake.faults.append(Fault(hang=True))
    async with anyio.create_task_group() as group:

        async def close():
            with anyio.fail_after(PATIENCE_S):
                while not fake.requests_of():  # noqa: ASYNC110 - a thread's state
                    await anyio.sleep(0.005)
            await anyio.to_thread.run_sync(anyio.run, server.aclose)

        group.start_soon(close)
        with pytest.raises(EngineClosed):
            await complete(server, PROMPT, 5)
    await server.aclose()


@pytest.mark.anyio
async def test_cancelling_a_completion_ends_it_there_too(connect, fake):
    async with connect() as server:
        with anyio.CancelScope() as scope:
            async for _ in server.generate(GenerateRequest(prompt_ids=PROMPT, max_tokens=200)):
                scope.cancel()
        assert scope.cancelled_caught
        rid = fake.requests_of()[0]["rid"]
        with anyio.fail_after(PATIENCE_S):
            while rid not in fake.disconnected:  # noqa: ASYNC110 - a thread's state
                await anyio.sleep(0.005)
        assert fake.aborted == ([] if fake.is_router else [rid])
        assert (await complete(server, PROMPT, 3)).last.finish


@pytest.mark.anyio
async def test_health_is_asked_once(connect, fake):
    async with connect() as server:
        await server.check_health()
        fake.api_key = "another"
        with pytest.raises(EngineUnauthorized):
            await server.check_health()


def test_a_key_opens_and_is_never_shown(engine, tiny):
    fake = FakeSGLang(engine, tiny.folder, api_key="sesame-123")
    with served(fake) as listening:
        with pytest.raises(EngineUnauthorized) as caught:
            SGLangServer(listening.url, api_key="wrong-key-9")
        assert "wrong-key-9" not in str(caught.value)
        server = SGLangServer(listening.url, api_key="sesame-123")
        anyio.run(complete, server, PROMPT, 2)
        fake.faults.append(Fault(status=400, body=b"you said: Bearer sesame-123"))
        with pytest.raises(InvalidRequest, match="Bearer …") as caught:
            anyio.run(server.score, SCORE)
        anyio.run(server.aclose)
    assert "sesame" not in repr(server) + repr(vars(server)) + repr(caught.value)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_hold(key):
    with pytest.raises(InvalidRequest, match="api_key") as caught:
        SGLangServer("http://localhost:1", api_key=key)
    assert not key or key not in str(caught.value)


def test_user_and_password_of_a_url_are_not_shown():
    with pytest.raises(InvalidRequest) as caught:
        SGLangServer("ftp://me:secret@localhost/x?token=1")
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)


def test_tls_with_a_certificate_of_ones_own(engine, tiny):
    with served(FakeSGLang(engine, tiny.folder), **TLS) as listening:
        with pytest.raises(EngineUnavailable, match="no trusted connection"):
            SGLangServer(listening.url)
        for options in ({"ca_file": CERTIFICATES / "ca.pem"}, {"verify": False}):
            server = SGLangServer(listening.url, **options)
            for backend in ("asyncio", "trio"):
                assert anyio.run(complete, server, PROMPT, 3, backend=backend).last.finish
            anyio.run(server.aclose)


def test_tls_where_clients_show_a_certificate(engine, tiny):
    strict = {**TLS, "ssl_ca_certs": str(CERTIFICATES / "ca.pem"), "ssl_cert_reqs": 2}
    with served(FakeSGLang(engine, tiny.folder), **strict) as listening:
        ca = CERTIFICATES / "ca.pem"
        with pytest.raises(EngineUnavailable):
            SGLangServer(listening.url, ca_file=ca, retries=SOON)
        pem = CERTIFICATES / "client.pem"
        for certificate in (pem, (pem, pem)):
            server = SGLangServer(listening.url, ca_file=ca, client_certificate=certificate)
            assert anyio.run(complete, server, PROMPT, 3).last.finish
            anyio.run(server.aclose)


def test_certificates_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidRequest, match="certificates"):
        SGLangServer("https://localhost:1", ca_file=tmp_path / "none.pem")
