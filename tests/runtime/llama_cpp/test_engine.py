"""What is particular to the engine on llama.cpp; the rest is told by the seam suite."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from contextlib import closing

import anyio
import pytest

from agentform.errors import CacheBudgetExceeded, EngineClosed, InvalidRequest, WeightsCorrupt
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Branch, Sampling, ScoreRequest
from agentform.runtime.llama_cpp.context import LlamaContext
from agentform.runtime.llama_cpp.engine import LlamaCppEngine
from agentform.runtime.llama_cpp.model import LlamaModel
from agentform.runtime.load import load_engine
from tests.support.engines import complete, settled
from tests.support.gguf_zoo import write_sentence_piece_gguf, write_tiny_gguf
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio
PROMPT = (5, 9, 30, 77, 120, 8)


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    return write_tiny_gguf("attention", tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def engine(gguf):
    engine = LlamaCppEngine(gguf, kv_budget_bytes=1 << 20, num_threads=1)
    yield engine
    engine.close()


@pytest.mark.parametrize("keep", [0, 3, 40, 2000])
def test_a_file_that_is_cut_off_or_none_is_refused_with_its_name(gguf, tmp_path, keep):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf.read_bytes()[:keep])
    with pytest.raises(WeightsCorrupt, match=r"broken\.gguf"):
        LlamaCppEngine(broken)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(WeightsCorrupt, match="not a GGUF file"):
        LlamaCppEngine(tmp_path / "text.gguf")
    with pytest.raises(WeightsCorrupt, match="cannot be read"):
        LlamaCppEngine(tmp_path / "none.gguf")


@pytest.mark.parametrize("options", [{"num_threads": 0}, {"max_batch_tokens": 0}, {"num_slots": -1}])
def test_settings_out_of_range_are_refused(gguf, options):
    with pytest.raises(InvalidRequest, match="at least 1"):
        LlamaCppEngine(gguf, **options)


def test_a_device_is_said_as_to_the_other_engine(gguf):
    with closing(load_engine(str(gguf), device="cpu", kv_budget_bytes=1 << 20, num_threads=1)) as engine:
        assert isinstance(engine, LlamaCppEngine)
    for wrong in ({"device": "cuda:3"}, {"device": "cpu", "gpu_layers": 2}):
        with pytest.raises(InvalidRequest, match=r"llama\.cpp takes device='cpu', or gpu_layers"):
            load_engine(str(gguf), **wrong)


def test_a_budget_for_less_than_two_tokens_names_the_numbers(gguf):
    with pytest.raises(CacheBudgetExceeded, match="budget of 100 bytes"):
        LlamaCppEngine(gguf, kv_budget_bytes=100)


async def test_a_request_that_the_budget_never_holds_is_refused(gguf):
    engine = LlamaCppEngine(gguf, kv_budget_bytes=8000, num_threads=1)
    with pytest.raises(CacheBudgetExceeded, match="holds"):
        await complete(engine, PROMPT * 20, 200)
    engine.close()


@pytest.mark.parametrize(("asked", "on_gpu"), [(None, False), (None, True), (True, False), (False, True)])
async def test_tokens_are_guessed_on_a_gpu_or_as_asked(gguf, monkeypatch, asked, on_gpu):
    sizes, compute = [], LlamaContext.decode
    monkeypatch.setattr(LlamaContext, "decode", lambda context, t: (sizes.append(len(t)), compute(context, t))[1])
    monkeypatch.setattr(LlamaModel, "is_on_gpu", on_gpu)
    engine = LlamaCppEngine(gguf, kv_budget_bytes=1 << 20, num_threads=1, guess_tokens=asked)
    sizes.clear()
    await complete(engine, PROMPT[:2] * 8, 12)
    engine.close()
    assert (max(sizes[1:]) > 1) == (on_gpu if asked is None else asked)


async def test_many_more_completions_than_sequences_run_together(engine):
    answers = {}

    async def run(seed):
        answers[seed] = (await complete(engine, (*PROMPT, seed), 6)).token_ids

    async with anyio.create_task_group() as group:
        for seed in range(3, 80):
            group.start_soon(run, seed)
    assert len(answers) == 77
    alone = {seed: (await complete(engine, (*PROMPT, seed), 6)).token_ids for seed in (3, 40, 79)}
    assert all(answers[seed] == ids for seed, ids in alone.items())
    await settled(engine)


async def test_more_branches_than_rows_of_logits(engine):
    branches = tuple(Branch(path=(a, b), candidates=(3, 4)) for a in range(3, 40) for b in (7, 8, 9))
    together = await engine.score(ScoreRequest(prompt_ids=PROMPT, branches=branches))
    for index in (0, 50, 110):
        alone = await engine.score(ScoreRequest(prompt_ids=PROMPT, branches=branches[index : index + 1]))
        assert together.logprobs[index] == pytest.approx(alone.logprobs[0], abs=0.01)
    await settled(engine)


async def test_what_is_closed_stays_readable_and_serves_no_more(gguf):
    engine = LlamaCppEngine(gguf, kv_budget_bytes=1 << 20, num_threads=1)
    before = engine.tokenizer.encode("hello the world")
    await engine.aclose()
    engine.close()
    assert engine.tokenizer.encode("hello the world") == before
    assert engine.tokenizer.decode(before) == "hello the world"
    with pytest.raises(EngineClosed):
        await complete(engine, PROMPT, 1)


async def test_a_cache_folder_on_a_full_disk_is_no_error(gguf, tmp_path, monkeypatch):
    from agentform.runtime.cache.tiers import disk

    def full(folder, entry):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "write_entry", full)
    engine = LlamaCppEngine(gguf, kv_budget_bytes=1 << 20, num_threads=1, cache_dir=tmp_path)
    answer = await complete(engine, PROMPT * 10, 5, conversation="a")
    assert answer.usage.completion_tokens == 5
    engine.close()
    assert not list(tmp_path.iterdir())


KILLED = """
    import os, sys
    import anyio
    from agentform.runtime.engine import GenerateRequest
    from agentform.runtime.llama_cpp.engine import LlamaCppEngine

    async def write(conversation, prompt):
        engine = LlamaCppEngine(sys.argv[1], kv_budget_bytes=1 << 20, num_threads=1, cache_dir=sys.argv[2])
        request = GenerateRequest(prompt_ids=tuple(prompt), max_tokens=4, conversation=conversation)
        async for _ in engine.generate(request):
            pass
        engine.close()

    anyio.run(write, "a", range(3, 103))
    os.fsync = lambda handle: os.kill(os.getpid(), 9)
    anyio.run(write, "b", range(103, 203))
"""


def test_a_process_killed_while_it_writes_loses_only_what_it_wrote(gguf, tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(gguf), str(tmp_path)]
    assert subprocess.run(command, check=False, timeout=PATIENCE_S).returncode == -signal.SIGKILL

    async def cached(engine, prompt):
        return (await complete(engine, tuple(prompt), 1)).usage.cached_tokens

    with closing(LlamaCppEngine(gguf, kv_budget_bytes=1 << 20, num_threads=1, cache_dir=tmp_path)) as engine:
        assert anyio.run(cached, engine, [*range(3, 103), 7]) == 100
        assert anyio.run(cached, engine, [*range(103, 203), 7]) == 0
        engine.integrity()


def test_info_says_what_runs_and_why(engine):
    assert "llama.cpp" in engine.info.why
    assert engine.info.context_tokens == 512
    assert engine.num_threads == 1
    assert "positions" in str(engine.memory_plan)


@pytest.mark.parametrize("seed", range(3))
async def test_a_grammar_holds_over_a_vocabulary_of_sentence_pieces(tmp_path, seed):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    engine = LlamaCppEngine(write_sentence_piece_gguf(tmp_path / "pieces.gguf"), kv_budget_bytes=1 << 20, num_threads=1)
    grammar = GrammarSpec(kind="json_schema", text=json.dumps(schema), lead=" ", follow="\n")
    sampling = Sampling(temperature=2.0, seed=seed)
    answer = await complete(engine, (5, 9, 30, 77), 40, grammar=grammar, sampling=sampling)
    assert answer.last.finish == "grammar"
    assert answer.text in (' {"a": true}\n', ' {"a": false}\n')
    engine.close()
