"""The command line: `agentform serve | chat | fill | demo | models | cache | plan | tune`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from agentform.cli.safe_text import SafeText
from agentform.errors import AgentformError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Tool calls that are chosen, not written.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="The models that agentform knows by name.", no_args_is_help=True)
app.add_typer(models_app, name="models")
cache_app = typer.Typer(help="Conversations that an engine keeps on disk.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")


def main() -> None:
    """Run the command line; errors that a user can act on are one line on stderr and exit status 1."""
    try:
        app()
    except AgentformError as error:
        Console(stderr=True).print(SafeText(f"{type(error).__name__}: {error}", style="red"), soft_wrap=True)
        sys.exit(1)


_NumThreads = Annotated[
    int | None, typer.Option("--num-threads", min=1, help="Threads of the model; else as many as there are free cores.")
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version, and end.")] = False,
) -> None:
    """Tool calls that are chosen, not written."""
    if version:
        from agentform.cli.version import own_version

        typer.echo(f"agentform {own_version()}")
        raise typer.Exit()


@app.command()
def doctor() -> None:
    """Show what this machine has: cores and memory, engines and extras, models, and what to install."""
    from agentform.cli.doctor import show_machine

    show_machine(Console())


@app.command()
def demo(
    input: Annotated[
        Path | None, typer.Option("--input", help="Messages: one per line, an empty line between customers.")
    ] = None,
    model: Annotated[str, typer.Option(help="A catalogue name, a model folder or a hub id.")] = "smollm2-135m",
    num_threads: _NumThreads = None,
) -> None:
    """Run the support desk on a real model and show how every argument was decided."""
    import anyio

    from agentform.cli.demo.run import run_demo
    from agentform.cli.demo.script import default_script

    console = Console()
    anyio.run(lambda: run_demo(input or default_script(), model=model, console=console, num_threads=num_threads))


@models_app.command("list")
def list_models() -> None:
    """Show the models of the catalogue, and whether their weights are here."""
    from agentform.runtime.models.catalogue import CATALOGUE
    from agentform.runtime.models.resolve import is_ready

    for name, entry in CATALOGUE.items():
        state = "ready" if is_ready(entry) else f"not fetched; run: agentform models fetch {name}"
        typer.echo(f"{name}\t{entry.title}\t{state}")


@models_app.command("fetch")
def fetch_model(name: Annotated[str, typer.Argument(help="A catalogue name or a hub id.")]) -> None:
    """Download a model, check its digest and convert it once."""
    from agentform.runtime.models.resolve import resolve_model

    typer.echo(f"{name}: {resolve_model(name)}")


@models_app.command("check")
def check_model_template(
    name: Annotated[str, typer.Argument(help="A model's name, folder or file, or a chat template (.jinja).")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what is learned of a model's chat template: calls, thoughts, rules, and what will not work."""
    from agentform.cli.check_model import check_model

    check_model(name, Console(), as_json=as_json)


@models_app.command("engine")
def which_engine(
    name: Annotated[str, typer.Argument(help="A catalogue name, a GGUF file, a model folder or a hub id.")],
    engine: Annotated[str | None, typer.Option("--engine", help="torch or llama_cpp, instead of what suits.")] = None,
) -> None:
    """Say which engine runs a model on this machine, why, and what it needs; the model is fetched if need be."""
    from agentform.runtime.model_facts import facts_of

    for what, value in facts_of(name, engine=engine):
        typer.echo(f"{what}\t{value}")


_Source = Annotated[str, typer.Argument(help="The cache_dir of an engine, or the URL of a server's /metrics.")]
_Every = Annotated[float, typer.Option("--every", min=0.05, help="Seconds between two looks.")]


@cache_app.command("stats")
def cache_stats(
    source: _Source,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until interrupted; a server's hit rate over time.")
    ] = False,
    every: _Every = 1.0,
) -> None:
    """Show what a cache folder holds, or what the cache of a running server does.

    A server that asks for a key gets the one in the variable AGENTFORM_API_KEY.
    """
    from agentform.cli.cache_stats import stats

    stats(source, Console(), watch=watch, every_s=every)


@cache_app.command("plot")
def cache_plot(
    source: Annotated[
        str, typer.Argument(help="A file that HitRateHistory.save wrote, or the URL of a server's /metrics.")
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("hit_rate.html"),
    seconds: Annotated[float, typer.Option(help="How long to watch a server.")] = 60.0,
    every: _Every = 1.0,
) -> None:
    """Draw token hit rate over time, by conversation and miss reason, on a page that a browser shows."""
    from agentform.cli.cache_stats import plot

    num = plot(source, out, seconds=seconds, every_s=every)
    typer.echo(f"{out}: {num} samples")


@cache_app.command("inspect")
def cache_inspect(folder: Annotated[Path, typer.Argument(help="The cache_dir of an engine.")]) -> None:
    """List what a cache folder holds."""
    from agentform.cli.cache_stats import inspect_folder

    inspect_folder(folder, Console())


@cache_app.command("horizons")
def cache_horizons(
    model: Annotated[str, typer.Argument(help="A model folder, a catalogue name or a hub id.")],
    plot: Annotated[Path | None, typer.Option(help="Write the picture to this PNG file too.")] = None,
) -> None:
    """Show how long a hybrid model's heads remember, and what snapshot policies would keep."""
    from agentform.cli.cache_horizons import show_horizons

    show_horizons(Console(), model, plot)


@cache_app.command("advise")
def cache_advise(
    trace: Annotated[
        Path | None, typer.Option(help="Requests, one JSON object a line: conversation, tokens at its end.")
    ] = None,
    statistics: Annotated[Path | None, typer.Option(help="statistics() of an engine, as JSON.")] = None,
    model: Annotated[str | None, typer.Option(help="Compare snapshot policies for this model.")] = None,
    budget_bytes: Annotated[int | None, typer.Option(help="The cache's budget, for a trace.")] = None,
) -> None:
    """Say whether more memory or smaller snapshots would serve more of the conversations that come back."""
    from agentform.cli.cache_advise import advise_from_files

    advise_from_files(Console(), trace=trace, statistics=statistics, model=model, budget_bytes=budget_bytes)


@app.command()
def plan(
    target: Annotated[str, typer.Argument(help="`module:attribute`, or a JSON Schema file.")],
    lenient: Annotated[bool, typer.Option(help="List unknown schema keywords instead of refusing them.")] = False,
    lint: Annotated[bool, typer.Option(help="Show where the schema is open although it need not be.")] = False,
    probe: Annotated[
        Path | None, typer.Option(help="Texts, one JSON object a line: measure which fields depend on one another.")
    ] = None,
    model: Annotated[str, typer.Option(help="The model to probe with.")] = "smollm2-135m",
    num_threads: _NumThreads = None,
) -> None:
    """Show how each leaf of a tool, model or schema will be filled, and why."""
    from agentform.cli.plan import load_target, show_hints, show_plan

    console = Console()
    loaded = load_target(target, lenient=lenient)
    show_plan(console, loaded)
    if lint:
        show_hints(console, loaded)
    if probe is not None:
        from agentform.cli.tune import probe_target

        probe_target(console, loaded, model, probe, num_threads=num_threads)


@app.command()
def tune(
    model: Annotated[str, typer.Argument(help="A catalogue name, a model folder or a hub id.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Labelled examples, one JSON object a line: text, field, options, gold, description; "
            "without them, those that come with agentform."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option(help="Keep what was found for this model.")] = True,
    num_threads: _NumThreads = None,
) -> None:
    """Find the prompt, lead-in, calibration and temperature that suit a model."""
    from agentform.cli.tune import tune_model

    tune_model(Console(), model, data, keep=keep, num_threads=num_threads)


_DeciderAddress = Annotated[
    str | None,
    typer.Option(
        "--decider",
        help="The address of a System One endpoint that chooses tools and closed values; `#name` says which model. "
        "A key for it may be in AGENTFORM_DECIDER_KEY.",
    ),
]


@app.command()
def serve(
    model: Annotated[str, typer.Option(help="A catalogue name, a model folder or a hub id.")] = "smollm2-135m",
    host: Annotated[str, typer.Option(help="Any other address than a loopback one needs an API key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(help="API keys, one a line. One may also be in the variable AGENTFORM_API_KEY.")
    ] = None,
    served_name: Annotated[str, typer.Option(help="Name of the model towards clients.")] = "",
    cache_dir: Annotated[Path | None, typer.Option(help="Keep conversations here, over restarts.")] = None,
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
    decider: _DeciderAddress = None,
    num_threads: _NumThreads = None,
    reasoning_format: Annotated[
        Literal["auto", "none"],
        typer.Option(help="auto: the text before a call is reasoning_content; none: it is content, as it comes."),
    ] = "auto",
    responses_file: Annotated[
        Path | None, typer.Option(help="Keep answers of /v1/responses in this SQLite file, over restarts.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse fields that have no effect.")] = False,
) -> None:
    """Serve an OpenAI-compatible API: chat completions with tools and schemas, typed decisions."""
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
        strict=strict,
    )
    serve_model(Console(stderr=True), model, settings, cache_dir=cache_dir, decider=decider, num_threads=num_threads)


@app.command()
def fill(
    schema: Annotated[str, typer.Argument(help="`module:attribute`, or a JSON Schema file.")],
    text: Annotated[
        list[str] | None, typer.Option(help="A text file, or - for stdin; may be given several times.")
    ] = None,
    source: Annotated[Path | None, typer.Option("--in", help="Rows to fill it from: .jsonl, .csv or .parquet.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where the rows go, in any of these formats.")] = None,
    column: Annotated[str, typer.Option(help="The column of a row that is read.")] = "text",
    at_once: Annotated[int, typer.Option(min=1, help="Rows that are worked on at once.")] = 8,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write --out though it is there.")] = False,
    model: Annotated[str, typer.Option(help="A catalogue name, model folder, hub id, URL or `module:attribute`.")] = (
        "smollm2-135m"
    ),
    instructions: Annotated[str, typer.Option(help="What the model is told beside the schema's description.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for other programs.")] = False,
    cache_dir: Annotated[Path | None, typer.Option(help="Keep what was read here, over restarts.")] = None,
    decider: _DeciderAddress = None,
    num_threads: _NumThreads = None,
) -> None:
    """Fill a form from texts and show how each value was decided, or from every row of a file into another.

    Exit status 3 says that a text or row could not be filled; the others are done all the same. Rows of a file that
    failed, or that an interruption left over, are done by the same command again.
    """
    from agentform.cli.fill import fill_texts
    from agentform.cli.plan import load_target

    target = load_target(schema)
    if source is not None and out is not None and not text:
        from agentform.cli.fill_file import FileFill, fill_file

        task = FileFill(source=source, out=out, column=column, at_once=at_once, overwrite=overwrite)
        console = Console(stderr=True)
        if fill_file(
            console,
            target,
            task,
            model=model,
            instructions=instructions,
            cache_dir=cache_dir,
            decider=decider,
            num_threads=num_threads,
        ):
            raise typer.Exit(3)
        return
    if not text or source is not None or out is not None:
        raise typer.BadParameter("give --text, once or several times, or --in and --out")
    num_failed = fill_texts(
        Console(),
        target,
        text,
        model=model,
        instructions=instructions,
        as_json=as_json,
        cache_dir=cache_dir,
        decider=decider,
        num_threads=num_threads,
    )
    if num_failed:
        raise typer.Exit(3)


@app.command()
def chat(
    model: Annotated[str, typer.Option(help="A catalogue name, model folder, hub id, URL or `module:attribute`.")] = (
        "smollm2-135m"
    ),
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
    cache_dir: Annotated[Path | None, typer.Option(help="Keep what was read here, over restarts.")] = None,
    decider: _DeciderAddress = None,
    num_threads: _NumThreads = None,
) -> None:
    """Talk to an agent, and see how it comes to each of its calls."""
    from agentform.cli.chat.run import run_chat

    run_chat(
        Console(),
        model=model,
        tools=tools or (),
        mcp=mcp or (),
        instructions=instructions,
        conversation=conversation,
        cache_dir=cache_dir,
        decider=decider,
        num_threads=num_threads,
    )


@app.command()
def mcp(
    model: Annotated[str, typer.Option(help="A catalogue name, model folder, hub id, URL or `module:attribute`.")] = (
        "smollm2-135m"
    ),
    port: Annotated[
        int | None, typer.Option(min=1, help="Serve over streamable HTTP at this port, on this machine only.")
    ] = None,
    cache_dir: Annotated[Path | None, typer.Option(help="Keep what was read here, over restarts.")] = None,
    num_threads: _NumThreads = None,
) -> None:
    """Offer `fill` and `decide` as an MCP server, over stdin and stdout or over HTTP."""
    from agentform.cli.mcp_server import serve_forms

    serve_forms(Console(stderr=True), model, port=port, cache_dir=cache_dir, num_threads=num_threads)
