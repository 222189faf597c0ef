"""`agentform chat`: an agent in the terminal, or on a page."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from agentform.cli import options
from agentform.cli.engine_settings import EngineSettings
from agentform.errors import InvalidInput

__all__ = ["chat"]


def chat(
    model: options.Model = "smollm2-135m",
    tools: Annotated[
        list[str] | None,
        typer.Option(help="`module:attribute`, or an MCP description file whose tools you play; several times."),
    ] = None,
    mcp: Annotated[
        list[str] | None, typer.Option(help="An MCP server: its URL, or its command in quotes; several times.")
    ] = None,
    instructions: Annotated[str, typer.Option(help="The system message.")] = "",
    conversation: Annotated[
        str | None, typer.Option(help="Name of a conversation that is kept, and goes on where it ended.")
    ] = None,
    cache_dir: options.CacheDir = None,
    decider: options.DeciderAddress = None,
    engine: options.AskedEngine = None,
    device: options.Device = None,
    dtype: options.DType = None,
    kv_budget: options.KVBudget = None,
    host_budget: options.HostBudget = None,
    kv_bits: options.KVBits = None,
    snapshots: options.SnapshotPrecision = None,
    num_threads: options.NumThreads = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of an answer, at most.")] = None,
    reasoning_effort: options.Effort = None,
    reasoning_tokens: Annotated[
        int | None, typer.Option(min=0, help="Tokens of a thought, and of free text before a call, at most.")
    ] = None,
    show_reasoning: Annotated[
        bool, typer.Option("--show-reasoning/--hide-reasoning", help="Whether thoughts and text before a call show.")
    ] = True,
    page: Annotated[bool, typer.Option("--page", help="Talk on a page in a browser on this machine.")] = False,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Of the page; else a free one.")] = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    min_p: options.MinP = None,
    seed: options.Seed = None,
    repetition_penalty: options.RepetitionPenalty = None,
    frequency_penalty: options.FrequencyPenalty = None,
    presence_penalty: options.PresencePenalty = None,
) -> None:
    """Talk to an agent, and see how it comes to each of its calls."""
    from agentform.cli.chat.run import run_chat
    from agentform.cli.chat.settings import ChatSettings

    if reasoning_effort == "none" and reasoning_tokens:
        raise InvalidInput("--reasoning-tokens has no effect with --reasoning-effort none; leave one of them out")
    settings = ChatSettings(
        model=model,
        tools=tuple(tools or ()),
        mcp=tuple(mcp or ()),
        instructions=instructions,
        conversation=conversation,
        decider=decider,
        engine=EngineSettings(
            engine=engine,
            device=device,
            dtype=dtype,
            cache_dir=cache_dir,
            kv_budget_bytes=kv_budget,
            host_budget_bytes=host_budget,
            kv_bits=kv_bits,
            snapshots=snapshots,
            num_threads=num_threads,
        ),
        sampling=options.asked_sampling(
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p,
            seed=seed,
            repetition_penalty=repetition_penalty,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
        ),
        reasoning_effort=reasoning_effort,
        reasoning_tokens=reasoning_tokens,
        max_tokens=max_tokens,
        shows_reasoning=show_reasoning,
    )
    if page:
        from agentform.cli.chat.page import serve_chat

        serve_chat(Console(stderr=True), settings, port=port or 0)
    elif port is not None:
        raise InvalidInput("--port is of the page; it has no effect without --page")
    else:
        run_chat(Console(), settings)
