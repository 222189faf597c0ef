"""SGLang's processes: what happens when they die, when the engine is closed, and when the program is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import anyio
import psutil
import pytest

from agentform.errors import EngineClosed, EngineError, InvalidRequest
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.sglang.embedded.engine import SGLangEngine
from tests.support.engines import complete
from tests.support.tiny_model import write_tiny_model
from tests.support.waiting import PATIENCE_S

SMALL = {"max_total_tokens": 2048, "max_running_requests": 4}
PROMPT = tuple(range(20, 60))
SCORE = ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(), candidates=(3,)), Branch(path=(4,), candidates=(3,))))


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny_model")
    write_tiny_model(folder, max_position_embeddings=1024)
    return folder


def ended(process_ids, within_s=60.0):
    """Whether all of them end; those whose parent has not looked after them yet count as ended."""
    until = time.monotonic() + within_s
    while any(map(runs, process_ids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def runs(process_id):
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def again_and_again(call):
    """Requests may end before what ends them all."""
    while True:
        await call()


def test_a_dying_scheduler_is_a_typed_error_for_every_request_and_the_program_lives(tiny_folder):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    engine = SGLangEngine(tiny_folder, **SMALL)
    errors = []

    async def run(call):
        with pytest.raises(EngineClosed, match="SGLang died") as caught:
            await again_and_again(call)
        errors.append(caught.value)

    async def main():
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(run, lambda: complete(engine, PROMPT, 900))
                group.start_soon(run, lambda: complete(engine, PROMPT[::-1], 900))
                group.start_soon(run, lambda: engine.score(SCORE))
                await anyio.sleep(0.3)
                os.kill(engine.process_ids[1], signal.SIGKILL)
            await run(lambda: engine.score(SCORE))

    anyio.run(main)
    assert len(errors) == 4
    assert all("-9" in str(error) for error in errors)
    assert ended(engine.process_ids)
    engine.close()
    engine.close()
    assert stranger.poll() is None, "SGLang took a process with it that was not its own"
    stranger.kill()
    stranger.wait()


_PROGRAM = """
import sys, time
from agentform import load_engine

# No guard: SGLang's processes do not run this file.
engine = load_engine(f"sglang:{sys.argv[1]}", max_total_tokens=2048, max_running_requests=4)
print(*engine.process_ids, flush=True)
if sys.argv[2] == "wait":
    time.sleep(600)
"""


@pytest.mark.parametrize("way", ["wait", "leave"])
def test_nothing_outlives_the_program(tiny_folder, tmp_path, way):
    script = tmp_path / "program.py"
    script.write_text(_PROGRAM, encoding="utf-8")
    program = subprocess.Popen([sys.executable, str(script), str(tiny_folder), way], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    with program.stdout:
        process_ids = [int(word) for word in program.stdout.readline().split()]
    assert len(process_ids) >= 3
    if way == "wait":
        program.kill()
    status = program.wait(90)
    assert status == (-signal.SIGKILL if way == "wait" else 0)
    assert ended(process_ids)


def test_closing_ends_requests_in_flight_and_all_processes(tiny_folder):
    engine = SGLangEngine(tiny_folder, **SMALL)
    errors = []

    async def run():
        with pytest.raises(EngineClosed) as caught:
            await again_and_again(lambda: complete(engine, PROMPT, 900))
        errors.append(str(caught.value))

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.sleep(0.2)
            await engine.aclose()
        with pytest.raises(EngineClosed, match="closed"):
            await engine.score(SCORE)

    anyio.run(main, backend="trio")
    assert errors == ["the engine is closed"]
    assert ended(engine.process_ids, within_s=5.0)


def test_arguments_that_sglang_refuses_are_an_error_that_says_why(tiny_folder):
    with pytest.raises(EngineError, match=r"did not start: TypeError: .*no_such_argument"):
        SGLangEngine(tiny_folder, no_such_argument=1)


def test_arguments_that_agentform_sets_are_refused(tiny_folder):
    with pytest.raises(InvalidRequest, match="skip_tokenizer_init"):
        SGLangEngine(tiny_folder, skip_tokenizer_init=True)
