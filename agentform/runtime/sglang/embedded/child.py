"""The main program of the process that owns SGLang.

SGLang takes over the process that it runs in: it sets the event loop policy, signal handlers and limits, and on its
way out kills every child of that process, whoever's it is. So it gets a process of its own, which imports nothing of
the user's program: `__main__` guards are not needed, and Ctrl-C, SIGQUIT and a dying scheduler reach this one only.

Messages are JSON, one per send over a socket::

    in   {"id": 1, "body": {...}}                 a request, see `agentform.runtime.sglang.wire.requests`
         {"abort": 1}                             drop it
         {"id": 2, "count": true}                 how many requests has SGLang not let go of?
         {"close": true}                          end
    out  {"ready": {...}} or {"failed": "..."}    once
         {"id": 1, "reply": {...} or [...]}       any number
         {"id": 1, "end": true}                   after the last
         {"id": 1, "error": "...", "status": 400}
         {"died": "..."}                          a process of SGLang's ended by itself
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from multiprocessing.connection import Connection
from typing import Any, NoReturn

__all__ = ["main"]

_META = ("completion_tokens", "cached_tokens", "finish_reason", "output_token_ids_logprobs")
_END_WITHIN_S = 30.0
_SAFE_ON_CPU = {
    "device": "cpu",
    "dtype": "bfloat16",
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "disable_cuda_graph": True,
    "disable_overlap_schedule": True,
    "mem_fraction_static": 0.8,
    "max_total_tokens": 65_536,
}


def main() -> None:
    """Serve until the socket is closed; the file descriptor is the only argument."""
    link = Connection(int(sys.argv[1]))
    arguments = json.loads(link.recv_bytes())
    try:
        server = _EngineHost(link, _launch(arguments))
    except BaseException as error:
        _send(link, {"failed": f"{type(error).__name__}: {error}"})
        _end()
    asyncio.run(server.serve())


class _EngineHost:
    def __init__(self, link: Connection, engine: Any) -> None:
        self._link = link
        self._engine = engine
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._workers = multiprocessing.active_children()

    async def serve(self) -> None:
        """Run requests until told to end."""
        loop = asyncio.get_running_loop()
        self._engine.tokenizer_manager.auto_create_handle_loop()
        # SGLang has just put its own handler there, which kills without a word.
        loop.add_signal_handler(signal.SIGQUIT, self._report_death)
        closed = asyncio.Event()
        reader = threading.Thread(target=self._read, args=(loop, closed), daemon=True)
        _send(self._link, {"ready": _facts(self._engine)})
        reader.start()
        await closed.wait()
        _end()

    def _read(self, loop: asyncio.AbstractEventLoop, closed: asyncio.Event) -> None:
        while True:
            try:
                message = json.loads(self._link.recv_bytes())
            except (EOFError, OSError):  # the user's process is gone
                message = {"close": True}
            if "close" in message:
                loop.call_soon_threadsafe(closed.set)
                return
            loop.call_soon_threadsafe(self._take, message)

    def _take(self, message: Mapping[str, Any]) -> None:
        if "abort" in message:
            if (task := self._tasks.get(message["abort"])) is not None:
                task.cancel()  # SGLang's generator aborts what it had sent to the scheduler
            return
        number = message["id"]
        if "count" in message:
            _send(self._link, {"id": number, "reply": len(self._engine.tokenizer_manager.rid_to_state)})
            _send(self._link, {"id": number, "end": True})
            return
        self._tasks[number] = task = asyncio.create_task(self._run(number, message["body"]))
        task.add_done_callback(lambda _: self._tasks.pop(number))

    async def _run(self, number: int, body: dict[str, Any]) -> None:
        try:
            async for reply in self._replies(number, body):
                _send(self._link, {"id": number, "reply": reply})
            _send(self._link, {"id": number, "end": True})
        except asyncio.CancelledError:
            pass  # nobody listens any more
        except Exception as error:
            status = getattr(error, "status_code", 400 if isinstance(error, ValueError) else None)
            said = str(getattr(error, "detail", error)) or type(error).__name__
            _send(self._link, {"id": number, "error": said, "status": status})

    async def _replies(self, number: int, body: dict[str, Any]) -> AsyncGenerator[Any, None]:
        # A prefix of another request's id would abort that one too: the point ends the number.
        ids = body["input_ids"]
        rid = [f"{number}.{index}." for index in range(len(ids))] if isinstance(ids[0], list) else f"{number}."
        if not body.get("stream"):
            yield _bare(await self._engine.async_generate(**body, rid=rid))
            return
        async for reply in await self._engine.async_generate(**body, rid=rid):
            yield _bare(reply)

    def _report_death(self) -> None:
        for worker in self._workers:
            worker.join(1.0)
        ended = [
            f"{worker.name} ended with {worker.exitcode}" for worker in self._workers if worker.exitcode is not None
        ]
        _send(self._link, {"died": ", ".join(ended) or "a process of SGLang's asked for the end"})
        _end()


def _launch(arguments: dict[str, Any]) -> Any:
    import torch

    # A scheduler that looks for work without end holds a core of a machine on which agents, too, have work.
    defaults: dict[str, Any] = {"log_level": "error", "grammar_backend": "llguidance", "sleep_on_idle": True}
    if arguments.get("device", "cuda" if torch.cuda.is_available() else "cpu") == "cpu":
        defaults |= _SAFE_ON_CPU
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        # What it would compile is small, and compiling it takes longer than all it saves.
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    from sglang.srt.entrypoints.engine import Engine  # pyright: ignore[reportMissingImports]

    fixed = {
        "incremental_streaming_output": True,
        # While it starts, a scheduler that dies is found by waiting for it, and then said.
        "custom_sigquit_handler": signal.SIG_IGN,
    }
    return Engine(**defaults | arguments | fixed)


def _facts(engine: Any) -> dict[str, Any]:
    model = engine.tokenizer_manager.model_config
    scheduler = engine._scheduler_init_result.scheduler_infos[0]
    return {
        "context_tokens": model.context_len,
        "vocabulary_size": model.vocab_size,
        "dtype": str(model.dtype),
        "capacity_tokens": scheduler["max_total_num_tokens"],
        "prompt_limit_tokens": scheduler["max_req_input_len"],
        "grammar_backend": engine.server_args.resolved_dict()["grammar_backend"],
        "process_ids": [os.getpid(), *engine.get_all_child_pids()],
    }


def _bare(reply: Any) -> Any:
    """What is read of a reply."""
    if isinstance(reply, list):
        return [_bare(item) for item in reply]
    meta = reply["meta_info"]
    return {"output_ids": list(reply["output_ids"]), "meta_info": {key: meta[key] for key in _META if key in meta}}


def _send(link: Connection, message: Mapping[str, Any]) -> None:
    try:
        link.send_bytes(json.dumps(message).encode())
    except OSError:
        _end()  # the user's process is gone


def _end() -> NoReturn:
    """End all that this process started, and then itself: its process group holds nothing else."""
    sys.stdout.flush()
    sys.stderr.flush()
    for worker in (workers := multiprocessing.active_children()):
        worker.kill()
    for worker in workers:
        worker.join(_END_WITHIN_S)
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("unreachable")


if __name__ == "__main__":
    main()
