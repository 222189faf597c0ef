"""agentform itself, through the functions that its users call."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from typing import Any

from agentform import Limits, Message, PriorStore, Responder, Tool, Toolbox, ToolCall, ToolResult, fill, load_engine
from agentform._util.paths import cache_home
from agentform.forms.fill import Prompts
from agentform.messages import Usage
from agentform.runtime.engine import GenerateRequest
from agentform.schema.json_text import dumps
from agentform.schema.target import Target, load
from agentform.turn.turn import TurnRunner
from benchmarks.peers.task import Model, Task, Written

__all__ = ["Agentform", "make"]

_Done = tuple[str, Usage, Usage, str]
"""Text, all usage, that of the request which read the prompt first, and how it ended."""


class Agentform:
    """Implements `Driver`."""

    def __init__(self, priors: PriorStore | None = None) -> None:
        """`priors` are by default on disk, where `agentform serve` and `chat` keep them."""
        self._priors = priors or PriorStore(cache_home() / "priors")
        self.settings: dict[str, Any] = {
            "calibration": "as shipped",
            "reasoning_tokens": 0,
            "argument_tokens": "as others",
        }
        self._runner = asyncio.Runner()
        self._forms: dict[str, Target] = {}
        self._boxes: dict[str, Toolbox] = {}

    def load(self, model: Model) -> None:
        """Load the model by its name."""
        kept = {"weights": model.weights} if model.engine == "torch" else {}
        self.engine: Any = load_engine(model.name, engine=model.engine, num_threads=model.threads, **kept)
        self._responder = Responder(self.engine, priors=self._priors)
        self.settings |= {"threads": model.threads, "engine": model.engine, "model": model.name}

    def run(self, task: Task) -> Written:
        """A form filled, a call made or a text generated; a schema is loaded, or found loaded, within the time."""
        started = time.perf_counter()
        text, usage, prompt, finish = self._runner.run(self._work(task))
        return Written(
            text=text,
            seconds=time.perf_counter() - started,
            prompt_tokens=prompt.prompt_tokens,
            cached_tokens=prompt.cached_tokens,
            completion_tokens=usage.completion_tokens,
            finish=finish,
        )

    def prompt_ids(self, task: Task) -> list[int] | None:
        """What `fill` and `Responder` make of the messages; how a call begins is agentform's own."""
        if task.kind == "form":
            return list(Prompts(self.engine, self._form(task), "").point(_messages(task)).before.ids)
        if not task.tools:
            return None
        caller = TurnRunner(engine=self.engine, targets={name: tool.target for name, tool in self._box(task).items()})
        return list(caller.prompt(_messages(task)))

    def close(self) -> None:
        """End the worker thread."""
        self.engine.close()
        self._runner.close()

    def _work(self, task: Task) -> Coroutine[Any, Any, _Done]:
        if task.kind == "form":
            return self._fill(task, self._form(task))
        return self._respond(task, self._box(task)) if task.tools else self._continue(task)

    def _form(self, task: Task) -> Target:
        key = json.dumps(task.schema)
        if key not in self._forms:
            self._forms[key] = load(task.schema)
        return self._forms[key]

    def _box(self, task: Task) -> Toolbox:
        key = json.dumps(task.tools)
        if key not in self._boxes:
            self._boxes[key] = Toolbox(_tool(said) for said in task.tools)
        return self._boxes[key]

    async def _fill(self, task: Task, form: Target) -> _Done:
        done = await fill(self.engine, _messages(task), form, priors=self._priors)
        return done.json_text, done.usage, done.prompt_usage, "filled"

    async def _continue(self, task: Task) -> _Done:
        text, usage, finish = "", Usage(), ""
        request = GenerateRequest(prompt_ids=tuple(task.ids), max_tokens=task.max_tokens)
        async for chunk in self.engine.generate(request):
            text, usage, finish = text + chunk.text, chunk.usage or usage, chunk.finish or finish
        return text, usage, usage, finish

    async def _respond(self, task: Task, tools: Toolbox) -> _Done:
        done = await self._responder.respond(
            _messages(task),
            tools=tools,
            tool_choice="required" if task.kind == "call" else "none",
            conversation=task.conversation,
            limits=Limits(reasoning_tokens=0, answer_tokens=task.max_tokens, argument_tokens=task.max_tokens),
        )
        calls = [dumps({"name": call.name, "arguments": dict(call.arguments)}) for call in done.calls]
        return "\n".join(calls) or done.message.content, done.usage, done.prompt_usage, done.finish


def _tool(said: dict[str, Any]) -> Tool[..., Any]:
    return Tool.from_schema(said["parameters"], name=said["name"], description=said["description"], lenient=True)


def _messages(task: Task) -> list[Message]:
    return [
        Message(
            role=said["role"],
            content=said["content"],
            calls=tuple(ToolCall(**call) for call in said.get("calls", ())),
            result=ToolResult(**said["result"]) if "result" in said else None,
        )
        for said in task.messages
    ]


def make() -> Agentform:
    """The driver."""
    return Agentform()
