"""`agentform serve` and `mcp`: a model behind HTTP or stdin and stdout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from agentform.cli import options
from agentform.cli.engine_settings import EngineSettings

__all__ = ["mcp", "serve"]


def serve(
    model: options.Model = "smollm2-135m",
    host: Annotated[str, typer.Option(help="Any other address than a loopback one needs an API key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(help="API keys, one a line. One may also be in the variable AGENTFORM_API_KEY.")
    ] = None,
    served_name: Annotated[str, typer.Option(help="Name of the model towards clients.")] = "",
    cache_dir: options.CacheDir = None,
    share_cache: Annotated[
        bool, typer.Option("--share-cache", help="Share cached prefixes between keys, which tells of what others say.")
    ] = False,
    max_running: Annotated[int, typer.Option(help="Requests that are worked on at once.")] = 8,
    max_queued: Annotated[int, typer.Option(help="Requests that wait; what comes on top gets 429.")] = 32,
    max_body_bytes: Annotated[int, typer.Option(help="Size of a request; larger ones get 413.")] = 4 << 20,
    deadline_s: Annotated[float, typer.Option(help="Seconds for a request, its wait included.")] = 600.0,
    grace_s: Annotated[float, typer.Option(help="Seconds that running requests get when the server stops.")] = 30.0,
    max_tokens: Annotated[int, typer.Option(help="Tokens of an answer that does not say how many.")] = 1024,
    reasoning_tokens: Annotated[int, typer.Option(help="Free text before a call, at most.")] = 256,
    decider: options.DeciderAddress = None,
    engine: options.AskedEngine = None,
    device: options.Device = None,
    dtype: options.DType = None,
    kv_budget: options.KVBudget = None,
    host_budget: options.HostBudget = None,
    kv_bits: options.KVBits = None,
    snapshots: options.SnapshotPrecision = None,
    num_threads: options.NumThreads = None,
    reasoning_format: Annotated[
        Literal["auto", "none"],
        typer.Option(help="auto: the text before a call is reasoning_content; none: it is content, as it comes."),
    ] = "auto",
    responses_file: Annotated[
        Path | None, typer.Option(help="Keep answers of /v1/responses in this SQLite file, over restarts.")
    ] = None,
    mcp: Annotated[
        list[str] | None,
        typer.Option(help="An MCP server whose tools are run here for every request: URL, or command in quotes."),
    ] = None,
    page: Annotated[bool, typer.Option("--page", help="Show turns as they happen, on a page at /page.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse fields that have no effect.")] = False,
    access_log: Annotated[
        Literal["text", "json", "off"], typer.Option(help="A line for each request, with its path, time and tokens.")
    ] = "text",
    trace: Annotated[
        bool, typer.Option("--trace", help="OpenTelemetry spans for requests, by the providers of this process.")
    ] = False,
) -> None:
    """Serve an OpenAI-compatible API: chat completions with tools and schemas, typed decisions."""
    from agentform.cli.mcp_tools import connected, show_left_out
    from agentform.cli.serve import serve_model
    from agentform.serve.settings import ServerSettings, read_api_keys

    settings = ServerSettings(
        host=host,
        port=port,
        api_keys=read_api_keys(api_key_file),
        share_cache=share_cache,
        served_name=served_name,
        max_running=max_running,
        max_queued=max_queued,
        max_body_bytes=max_body_bytes,
        deadline_s=deadline_s,
        grace_s=grace_s,
        max_tokens=max_tokens,
        reasoning_tokens=reasoning_tokens,
        reasoning_format=reasoning_format,
        responses_file=responses_file,
        page=page,
        strict=strict,
        access_log=access_log,
        trace=trace,
    )
    console = Console(stderr=True)
    with connected(mcp or ()) as own_tools:
        show_left_out(console, own_tools)
        serve_model(
            console,
            model,
            settings,
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
            decider=decider,
            own_tools=own_tools,
        )


def mcp(
    model: options.Model = "smollm2-135m",
    port: Annotated[
        int | None, typer.Option(min=1, help="Serve over streamable HTTP at this port, on this machine only.")
    ] = None,
    cache_dir: options.CacheDir = None,
    engine: options.AskedEngine = None,
    device: options.Device = None,
    dtype: options.DType = None,
    kv_budget: options.KVBudget = None,
    host_budget: options.HostBudget = None,
    kv_bits: options.KVBits = None,
    snapshots: options.SnapshotPrecision = None,
    num_threads: options.NumThreads = None,
) -> None:
    """Offer `fill` and `decide` as an MCP server, over stdin and stdout or over HTTP."""
    from agentform.cli.mcp_server import serve_forms

    settings = EngineSettings(
        engine=engine,
        device=device,
        dtype=dtype,
        cache_dir=cache_dir,
        kv_budget_bytes=kv_budget,
        host_budget_bytes=host_budget,
        kv_bits=kv_bits,
        snapshots=snapshots,
        num_threads=num_threads,
    )
    serve_forms(Console(stderr=True), model, port=port, engine=settings)
