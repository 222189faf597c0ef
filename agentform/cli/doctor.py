"""`agentform doctor`: what a machine has, what is installed of agentform's extras, and what would have to be."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator

from rich.console import Console

from agentform._util.install import install_line
from agentform._util.paths import cache_home
from agentform.cli.safe_text import SafeText
from agentform.cli.version import own_version
from agentform.runtime.free_cores import physical_cores
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.resolve import is_ready

__all__ = ["show_machine"]

_EXTRAS = {
    "torch": ("torch", "models of the Hugging Face hub"),
    "llama": ("xllamacpp", "GGUF files"),
    "sglang": ("sglang", "models in SGLang, on a GPU"),
    "client": ("httpx", "engines behind a URL"),
    "serve": ("starlette", "agentform serve"),
    "chat": ("prompt_toolkit", "history and editing of lines in agentform chat"),
    "mcp": ("mcp", "tools of MCP servers, agentform mcp"),
    "metrics": ("prometheus_client", "Prometheus"),
    "otel": ("opentelemetry.sdk", "OpenTelemetry"),
}
_RUNS_MODELS = ("torch", "llama", "sglang")


def show_machine(console: Console) -> None:
    """Print it, two columns to a line; nothing is loaded or fetched."""
    for what, found in (*_machine(), *_extras(), *_models(), *_advice()):
        console.print(SafeText(f"{what:<12} {found}"), soft_wrap=True)


def _machine() -> Iterator[tuple[str, str]]:
    yield "agentform", f"{own_version()}, Python {platform.python_version()} ({sys.executable})"
    yield "machine", f"{platform.system()} {platform.machine()}, {physical_cores()} cores, {_memory()}"
    home = cache_home()
    free = shutil.disk_usage(next(path for path in (home, *home.parents) if path.exists())).free
    yield "cache", f"{home}, {free / 1e9:.1f} GB free"
    policy = os.environ.get("OMP_WAIT_POLICY") or "passive, where agentform loads the model"
    yield "threads", f"wait {policy}; OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS') or 'not set'}"


def _extras() -> Iterator[tuple[str, str]]:
    for extra, (module, what) in _EXTRAS.items():
        state = f"{module} {_version(module)}" if _is_there(module) else f"not installed: {install_line(extra)}"
        yield f"[{extra}]", f"{what}: {state}"


def _models() -> Iterator[tuple[str, str]]:
    for name, entry in CATALOGUE.items():
        state = "ready" if is_ready(entry, gguf_alone=True) else f"not fetched: agentform models fetch {name}"
        yield "model", f"{name}: {state}"


def _advice() -> Iterator[tuple[str, str]]:
    """What is to be done before anything runs."""
    if not any(_is_there(_EXTRAS[extra][0]) for extra in _RUNS_MODELS):
        yield "to do", f"no engine runs here: {install_line('llama')}"
    elif not any(is_ready(entry, gguf_alone=True) for entry in CATALOGUE.values()):
        yield "to do", "no model is here: agentform models fetch smollm2-135m"
    else:
        yield "to do", "nothing: agentform demo"


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False


def _version(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module.split(".")[0], [])
    return importlib.metadata.version(names[0]) if names else ""


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB"
    except (AttributeError, ValueError, OSError):  # not told on this platform
        return "memory not told"
