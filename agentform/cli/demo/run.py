"""Runs the support desk over a file of messages and prints how every call came about."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from agentform._util.paths import cache_home
from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.cli.demo.desk import INSTRUCTIONS, SupportDesk
from agentform.cli.demo.script import read_script
from agentform.cli.demo.view import Cost, cost_table, show_event
from agentform.cli.engine_settings import EngineSettings
from agentform.cli.loading import opened
from agentform.cli.safe_text import SafeText
from agentform.decoding.limits import Limits
from agentform.errors import CallError
from agentform.forms.label_prior import PriorStore
from agentform.messages import Usage
from agentform.runtime.engine import Engine
from agentform.turn.reasoning import Reasoning

__all__ = ["LIMITS", "REASONING", "reasoning_of", "run_demo"]

# A model of 135M parameters needs a start for its note on the customer, and one call per message is what it can do.
REASONING = Reasoning(prefix="The customer wants", stop=(".", "\n"))
LIMITS = Limits(steps=2, reasoning_tokens=32, argument_tokens=128, answer_tokens=48)


def reasoning_of(engine: Engine) -> Reasoning:
    """The start of a note is for models that were not trained to call tools; it misleads those that were."""
    return Reasoning() if engine.tokenizer.has_tool_template else REASONING


async def run_demo(file: Path, *, model: str, console: Console, num_threads: int | None = None) -> list[Cost]:
    """Serve every customer in `file`; returns what each message cost.

    Raises:
        InvalidInput: the file holds no messages.
        EngineError: the model cannot be loaded or served.
    """
    customers = read_script(file)
    started = time.perf_counter()
    engine = opened(console, model, EngineSettings(num_threads=num_threads))
    load_s = time.perf_counter() - started
    costs: list[Cost] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            desk = SupportDesk(Path(folder) / "desk.sqlite")
            agent = Agent(
                engine,
                tools=desk.tools(),
                instructions=INSTRUCTIONS,
                limits=LIMITS,
                reasoning=reasoning_of(engine),
                priors=PriorStore(cache_home() / "priors"),
            )
            for messages in customers:
                costs += await _serve(agent, messages, console)
    finally:
        await engine.aclose()
    console.print(cost_table(costs, load_s=load_s, width=console.width))
    return costs


async def _serve(agent: Agent, messages: list[str], console: Console) -> list[Cost]:
    conversation = Conversation()
    costs: list[Cost] = []
    for message in messages:
        console.print(Rule(SafeText(message), align="left"))
        started = time.perf_counter()
        usage = await _answer(agent, message, conversation, console)
        costs.append(Cost(message=message, usage=usage, seconds=time.perf_counter() - started))
    return costs


async def _answer(agent: Agent, message: str, conversation: Conversation, console: Console) -> Usage:
    try:
        async with agent.stream(message, conversation=conversation) as run:
            async for event in run:
                show_event(console, event)
    except CallError as error:
        console.print(SafeText(f"✗ {type(error).__name__}: {error}", style="red"))
        return Usage()
    console.print()
    return run.result.usage
