"""The engine seam over HTTP: the same answers as from the engine behind the server."""

from __future__ import annotations

import anyio
import pytest

from agentform.errors import ContextOverflow, GrammarError, InvalidRequest
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Branch, Engine, GenerateRequest, Sampling, ScoreRequest
from agentform.runtime.load import load_engine
from agentform.runtime.sglang.client.server import ROUTING_KEY, SGLangServer
from tests.support.engines import complete
from tests.support.fake_sglang import FakeSGLang, served

pytestmark = pytest.mark.anyio
PROMPT = tuple(range(20, 60))
BRANCHES = (
    Branch(path=(5, 6), candidates=(7, 8)),
    Branch(path=(), candidates=(3, 4)),
    Branch(path=(9,), candidates=(7,)),
    Branch(path=(5, 6), candidates=(9,)),
)


async def test_it_is_an_engine(connect, engine):
    async with connect() as server:
        assert isinstance(server, Engine)
        assert server.info.name == "tiny"
        assert server.info.context_tokens == engine.info.context_tokens
        assert server.info.vocabulary_size == engine.info.vocabulary_size


@pytest.mark.parametrize("options", [{}, {"stop": ("e", "a")}, {"sampling": Sampling(temperature=0.8, seed=3)}])
async def test_completions_are_the_engines_own(connect, engine, options):
    async with connect() as server:
        for start in range(3):
            prompt = PROMPT[start:]
            ours, theirs = await complete(engine, prompt, 12, **options), await complete(server, prompt, 12, **options)
            assert (ours.text, ours.token_ids) == (theirs.text, theirs.token_ids)
            assert (ours.last.finish, ours.last.stop) == (theirs.last.finish, theirs.last.stop)
            assert ours.usage.completion_tokens == theirs.usage.completion_tokens


async def test_a_grammar_holds_and_ends_the_completion(connect):
    async with connect() as server:
        answer = await complete(server, PROMPT, 30, grammar=GrammarSpec(kind="regex", text="(yes|no){2}", follow="."))
        assert answer.text in ("yesyes.", "yesno.", "noyes.", "nono.")
        assert answer.last.finish == "grammar"


async def test_scores_are_the_engines_own(connect, engine):
    request = ScoreRequest(prompt_ids=PROMPT, branches=BRANCHES)
    async with connect() as server:
        found, expected = await server.score(request), await engine.score(request)
    for ours, theirs in zip(found.logprobs, expected.logprobs, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    assert found.usage.completion_tokens == 0


async def test_usage_tells_what_was_cached_and_what_nobody_knows(connect):
    async with connect() as server:
        cold, warm = await complete(server, PROMPT, 5), await complete(server, PROMPT, 5)
        assert (cold.usage.cached_tokens, warm.usage.cached_tokens) == (0, 39)
        assert (warm.usage.restored_tokens, warm.usage.miss) == (None, None)
        await server.score(ScoreRequest(prompt_ids=PROMPT, branches=BRANCHES, conversation="c"))
        found = server.statistics()
    assert (found.requests, found.lookup_tokens, found.hit_tokens) == (3, 120, 78)
    assert found.conversations["c"].hit_tokens == 39


async def test_the_prompt_is_read_before_the_branches(connect, fake):
    async with connect() as server:
        await server.score(ScoreRequest(prompt_ids=PROMPT, branches=(BRANCHES[0], BRANCHES[2])))
    warm, *rest = fake.requests_of()
    assert warm["input_ids"] == list(PROMPT)
    assert len(rest) == (2 if fake.is_router else 1)


async def test_a_server_gets_batches_no_larger_than_its_queue(engine, tiny):
    fake = FakeSGLang(engine, tiny.folder, most_queued=2)
    branches = tuple(Branch(path=(token,), candidates=(7,)) for token in range(5, 10))
    with served(fake) as listening:
        async with SGLangServer(listening.url) as server:
            await server.score(ScoreRequest(prompt_ids=PROMPT, branches=branches))
    assert [len(body["input_ids"]) for body in fake.requests_of()[1:]] == [2, 2, 1]


async def test_the_conversation_travels_as_routing_key(connect, fake):
    async with connect() as server:
        await complete(server, PROMPT, 1, conversation="client 7/ü")
        await server.score(ScoreRequest(prompt_ids=PROMPT, branches=BRANCHES, conversation="other"))
        await complete(server, PROMPT, 1)
    keys = [asked.headers.get(ROUTING_KEY) for asked in fake.asked if asked.path == "/generate"]
    assert "client%207%2F%C3%BC" in keys
    assert "other" in keys
    assert keys[-1] is None


async def test_eight_at_once(connect, engine):
    answers = {}

    async def run(server, start):
        answers[start] = (await complete(server, PROMPT[start:], 12)).token_ids

    async with connect(max_connections=3) as server:
        async with anyio.create_task_group() as group:
            for start in range(8):
                group.start_soon(run, server, start)
    for start in range(8):
        assert answers[start] == (await complete(engine, PROMPT[start:], 12)).token_ids


async def test_connections_are_used_again(connect, fake):
    """The port of the client tells one connection from another; eight requests need one."""
    async with connect() as server:
        for _ in range(4):
            await complete(server, PROMPT, 3)
            await server.score(ScoreRequest(prompt_ids=PROMPT, branches=BRANCHES[:1]))
    ports = {asked.client_port for asked in fake.asked if asked.path == "/generate" and "text" not in asked.body}
    assert len(ports) == 1


async def test_bad_requests_stay_here(connect, fake):
    async with connect() as server:
        fake.asked.clear()
        with pytest.raises(InvalidRequest, match="empty"):
            await complete(server, ())
        with pytest.raises(InvalidRequest, match="outside"):
            await complete(server, (server.info.vocabulary_size,))
        with pytest.raises(ContextOverflow):
            await complete(server, PROMPT * 8)
        with pytest.raises(GrammarError):
            await complete(server, PROMPT, grammar=GrammarSpec(kind="regex", text="("))
    assert fake.requests_of() == []


async def test_a_router_before_xgrammar_is_never_asked_for_what_it_would_drop(engine, tiny):
    fake = FakeSGLang(engine, tiny.folder, is_router=True, grammar_backend="xgrammar")
    with served(fake) as listening:
        async with SGLangServer(listening.url) as server:
            with pytest.raises(GrammarError, match="--grammar-backend llguidance"):
                await complete(server, PROMPT, grammar=GrammarSpec(kind="regex", text="a"))


async def test_xgrammar_gets_a_structural_tag(engine, tiny):
    fake = FakeSGLang(engine, tiny.folder, grammar_backend="xgrammar")
    with served(fake) as listening:
        async with SGLangServer(listening.url) as server:
            await complete(server, PROMPT, 3, grammar=GrammarSpec(kind="regex", text="a+"))
    assert "structural_tag" in fake.requests_of()[0]["sampling_params"]


async def test_load_engine_takes_a_url(listening, tiny, monkeypatch, fake):
    monkeypatch.setenv("AGENTFORM_ENGINE_KEY", "secret-key")
    fake.api_key = "secret-key"
    engine = await anyio.to_thread.run_sync(load_engine, f"{listening.url}#{tiny.folder}")
    assert isinstance(engine, SGLangServer)
    assert "secret" not in repr(engine)
    assert (await complete(engine, PROMPT, 2)).usage.completion_tokens
    await engine.aclose()


async def test_load_engine_refuses_what_is_the_servers_business(listening):
    with pytest.raises(InvalidRequest, match="cache_dir"):
        load_engine(listening.url, cache_dir="/nowhere")


async def test_zero_tokens_only_warm_the_cache(connect):
    async with connect() as server:
        assert (await complete(server, PROMPT, 0)).token_ids == ()
        assert (await complete(server, PROMPT, 1)).usage.cached_tokens == 39


async def test_expect_return_is_only_a_hint(connect):
    async with connect() as server:
        server.expect_return("c", after="search")
        request = GenerateRequest(prompt_ids=PROMPT, max_tokens=1, boundaries=(10,))
        assert [chunk async for chunk in server.generate(request)][-1].finish
