"""Who may import whom, read from the source: imports inside functions count, and those for type checking only.

A room is a folder or a module by the name that it has in the table. Rooms lie in an order: what a room may import lies
below it, so that no two of them need one another, and what is not listed is private.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentform
from tests.support.public_names import private_names

PACKAGE = Path(agentform.__file__).parent
FOLDERS = ("runtime", "runtime.sglang")
"""Folders of rooms, which hold no code of their own."""
INTEGRATIONS = sorted((PACKAGE.parent / "integrations").glob("*/src/**/*.py"))

# By room, the agentform modules that it may import; a name covers what lies below it.
LEAVES = ("_util", "errors", "messages")
# What an engine needs that reads token ids only, and one that runs a model itself.
HTTP = (
    "runtime.http",
    "runtime.prior_store",
    "runtime.engine",
    "runtime.preparation",
    "runtime.grammar_cache",
    "runtime.thread_channel",
    "runtime.models",
    "runtime.tokenizer",
    "runtime.cache.statistics",
)
OWN_MODEL = (*HTTP, "runtime.free_cores", "runtime.scheduling", "runtime.cache", "runtime.detokenizer")
ALLOWED: dict[str, tuple[str, ...]] = {
    "errors": ("messages", "_util.text"),
    "_util": ("_util", "errors"),
    "messages": (),
    "events": ("messages",),
    "evidence_html": ("messages", "schema.json_text", "_util.text"),
    "json_schema": ("json_schema", "errors"),
    "schema": ("schema", "json_schema", *LEAVES),
    "grammar": ("grammar", "json_schema", *LEAVES),
    "kernels": ("kernels", "errors"),
    "tools": ("tools", "schema", "json_schema", *LEAVES),
    "runtime.engine": ("grammar.spec", "messages", "runtime.cache.statistics"),
    "runtime.load": (
        "runtime.idle_threads",
        "runtime.prior_store",
        "runtime.engine",
        "runtime.models",
        "runtime.torch.engine",
        "runtime.sglang.client.server",
        "runtime.sglang.embedded.engine",
        "runtime.sglang.wire.versions",
        "runtime.llama_cpp.engine",
        "runtime.llama_cpp.options",
        "runtime.llama_server.engine",
        "runtime.openai_server.engine",
        "runtime.server_choice",
        "runtime.choice",
        *LEAVES,
    ),
    "runtime.scoped": ("runtime.engine", "runtime.cache.statistics", *LEAVES),
    "runtime.model_facts": (
        "runtime.choice",
        "runtime.models",
        "runtime.llama_cpp.model",
        "runtime.free_cores",
        *LEAVES,
    ),
    "runtime.choice": ("runtime.choice", "runtime.models", *LEAVES),
    "runtime.server_choice": ("runtime.http", *LEAVES),
    "runtime.validation": ("runtime.engine", "grammar", *LEAVES),
    "runtime.grammar_cache": ("runtime.engine", "grammar", *LEAVES),
    "runtime.preparation": ("runtime.engine", "runtime.validation", "runtime.grammar_cache", "grammar", *LEAVES),
    "runtime.prior_store": LEAVES,
    "runtime.thread_channel": LEAVES,
    "runtime.labelled": (),
    "runtime.free_cores": (),
    "runtime.idle_threads": (),
    "runtime.detokenizer": ("runtime.engine", *LEAVES),
    "runtime.scripted": (
        "runtime.scripted",
        "runtime.engine",
        "runtime.preparation",
        "runtime.cache.statistics",
        "grammar",
        *LEAVES,
    ),
    "runtime.models": ("runtime.models", *LEAVES),
    "runtime.tokenizer": ("runtime.tokenizer", "runtime.models", "runtime.engine", "grammar", *LEAVES),
    "runtime.cache": ("runtime.cache", *LEAVES),
    "runtime.snapshots": ("runtime.snapshots", *LEAVES),
    "runtime.scheduling": (
        "runtime.prior_store",
        "runtime.scheduling",
        "runtime.cache",
        "runtime.engine",
        "runtime.thread_channel",
        "runtime.detokenizer",
        "runtime.grammar_cache",
        "runtime.preparation",
        "runtime.tokenizer",
        "grammar",
        *LEAVES,
    ),
    "runtime.torch": ("runtime.torch", "runtime.snapshots", *OWN_MODEL, "grammar", "kernels", *LEAVES),
    "runtime.http": (
        "runtime.http",
        "runtime.engine",
        "runtime.preparation",
        "runtime.cache.statistics",
        "runtime.cache.working_set",
        *LEAVES,
    ),
    "runtime.sglang.wire": (
        "runtime.sglang.wire",
        "runtime.http",
        "runtime.engine",
        "runtime.detokenizer",
        "runtime.cache.statistics",
        "grammar",
        *LEAVES,
    ),
    "runtime.sglang.client": ("runtime.sglang.client", "runtime.sglang.wire", *HTTP, "grammar", *LEAVES),
    "runtime.sglang.embedded": (
        "runtime.sglang.embedded",
        "runtime.sglang.wire",
        "runtime.sglang.plugin.settings",
        "runtime.sglang.plugin.statistics",
        "runtime.snapshots",
        *HTTP,
        "grammar",
        *LEAVES,
    ),
    "runtime.sglang.plugin": (
        "runtime.sglang.plugin",
        "runtime.sglang.wire.versions",
        "runtime.snapshots",
        "runtime.torch.snapshots",
        "runtime.torch.forward.memory_plan",
        *LEAVES,
    ),
    "runtime.llama_server": ("runtime.llama_server", "runtime.detokenizer", *HTTP, "grammar", *LEAVES),
    "runtime.openai_server": (
        "runtime.openai_server",
        "runtime.scripted.byte_tokenizer",
        "runtime.detokenizer",
        *HTTP,
        "json_schema",
        "grammar.spec",
        *LEAVES,
    ),
    "runtime.llama_cpp": ("runtime.llama_cpp", *OWN_MODEL, "grammar", *LEAVES),
    "decoding": ("decoding", "schema", "grammar.spec", "runtime.engine", "events", *LEAVES),
    "forms": (
        "evidence_html",
        "forms",
        "decoding",
        "schema",
        "grammar.spec",
        "runtime.engine",
        "runtime.labelled",
        "runtime.prior_store",
        "events",
        *LEAVES,
    ),
    "rows": ("rows", "forms", "schema.json_text", "runtime.engine", *LEAVES),
    "deciders": (
        "deciders",
        "forms.asked",
        "forms.decider",
        "forms.langchain_decider",
        "forms.system_one",
        "runtime.http",
        *LEAVES,
    ),
    "turn": (
        "turn",
        "forms",
        "decoding",
        "schema",
        "grammar.spec",
        "runtime.engine",
        "runtime.labelled",
        "events",
        *LEAVES,
    ),
    "training": (
        "training",
        "turn.labelled_calls",
        "forms",
        "schema",
        "runtime.choice",
        "runtime.engine",
        "runtime.free_cores",
        "runtime.idle_threads",
        "runtime.labelled",
        "runtime.load",
        "runtime.models",
        "runtime.torch.cpu.threads",
        "runtime.torch.forward.transformers_adapter",
        *LEAVES,
    ),
    "agent": (
        "agent",
        "evidence_html",
        "turn",
        "forms",
        "decoding",
        "tools",
        "events",
        "runtime.engine",
        "grammar.spec",
        "schema.json_text",
        "schema.target",
        *LEAVES,
    ),
    "telemetry": (
        "telemetry",
        "agent.observer",
        "runtime.engine",
        "runtime.cache.statistics",
        "runtime.cache.working_set",
        "schema.json_text",
        *LEAVES,
    ),
    "serve": (
        "serve",
        "agent.conversation",
        "agent.responder",
        "agent.result_text",
        "agent.sqlite_store",
        "agent.store",
        "agent.streaming",
        "agent.token_logprobs",
        "turn.effort",
        "turn.reasoning",
        "forms.asked",
        "forms.decisions",
        "forms.isolated",
        "forms.langchain_decider",
        "forms.system_one",
        "forms.two_brains",
        "forms.label_prior",
        "decoding.limits",
        "decoding.prompt_work",
        "decoding.session",
        "decoding.tool_format",
        "grammar.spec",
        "tools.tool",
        "tools.toolset",
        "schema.json_text",
        "schema.target",
        "runtime.engine",
        "runtime.scoped",
        "telemetry",
        "events",
        *LEAVES,
    ),
    "cli": (
        "cli",
        "deciders",
        "rows",
        "training.adapter",
        "training.settings",
        "serve.app",
        "serve.server",
        "serve.settings",
        "telemetry",
        "agent",
        "turn.effort",
        "turn.reasoning",
        "forms",
        "decoding.limits",
        "decoding.formats",
        "decoding.tool_format",
        "tools",
        "schema",
        "grammar.prepare",
        "runtime.free_cores",
        "runtime.load",
        "runtime.model_facts",
        "runtime.engine",
        "runtime.models",
        "runtime.tokenizer",
        "runtime.llama_cpp",
        "runtime.snapshots",
        "runtime.torch.snapshots",
        "runtime.cache.statistics",
        "runtime.cache.tiers.entry_file",
        "runtime.cache.working_set",
        "runtime.scheduling.replay",
        "events",
        *LEAVES,
    ),
    "testing": ("messages", "runtime.engine", "runtime.scripted"),
    "reports": ("cli.cache_stats", "cli.plan", "cli.safe_text", "cli.tune"),
    "engines": ("runtime", "decoding.tool_format", "_util.paths"),
    "__main__": ("cli",),
}
# The package itself, whose names come from everywhere.
OPEN = ("",)
# Where names of 0.1 are still found, for one release.
MOVED = (
    "agent.testing",
    "cache_view",
    "calls",
    "calls.frame",
    "plan",
    "run_context",
    "runtime.paths",
    "runtime.sglang.engine",
    "runtime.sglang.retry_policy",
    "runtime.sglang.server",
    "runtime.sglang.snapshot_settings",
    "runtime.sglang.snapshot_statistics",
    "runtime.torch.snapshot_codec",
    "schema.load",
    "serve.run",
    "tool_policy",
    "tuning_view",
)
ONLY_FOR_TYPES = {("errors", "messages")}


def imports(source: str) -> Iterator[tuple[str, bool]]:
    """The agentform modules that a source imports, and whether for type checking only."""

    def walk(node: ast.AST, typing_only: bool) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            yield from ((f"{node.module}.{alias.name}", typing_only) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            guarded = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            yield from walk(child, typing_only or (guarded and child in node.body))

    for name, typing_only in walk(ast.parse(source), False):
        if name == "agentform" or name.startswith("agentform."):
            yield name.removeprefix("agentform").removeprefix("."), typing_only


def layer_of(module: str) -> str | None:
    """The longest prefix of a module's name that is a layer; `None` for modules outside the table."""
    parts = module.split(".")
    names = [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
    return next((name for name in names if name in ALLOWED), None)


def violations(module: str, source: str) -> list[str]:
    if module in MOVED:
        return [f"{module} imports {name}" for name, _ in imports(source) if name != "_util.moved.moved"]
    layer = layer_of(module)
    if layer is None:
        return [] if module in OPEN or module in FOLDERS else [f"{module} is in no layer"]
    found: list[str] = []
    for name, typing_only in imports(source):
        if not any(name == a or name.startswith(a + ".") for a in ALLOWED[layer]):
            found.append(f"{module} imports {name or 'the package itself'}")
        elif not typing_only and any(layer == a and name.startswith(b) for a, b in ONLY_FOR_TYPES):
            found.append(f"{module} imports {name} at run time")
    return found


def modules() -> dict[str, Path]:
    named: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def graph() -> dict[str, set[str]]:
    """By module, the modules that it imports, wherever and for whatever."""
    known = modules()

    def module_of(name: str) -> str:
        while name not in known:
            name = name.rpartition(".")[0]
        return name

    return {
        module: {module_of(name) for name, _ in imports(path.read_text(encoding="utf-8"))} - {module}
        for module, path in known.items()
    }


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of more than one node that can all reach one another."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        found, waiting = set[str](), [start]
        while waiting:
            for below in graph[waiting.pop()] - found:
                found.add(below)
                waiting.append(below)
        reached[start] = found
    rings = [{other for other in found if start in reached[other]} | {start} for start, found in reached.items()]
    return [ring for at, ring in enumerate(rings) if len(ring) > 1 and ring not in rings[:at]]


def rooms(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same by room; the package itself is none."""
    by_room: dict[str, set[str]] = {layer: set() for layer in ALLOWED}
    for module, below in graph.items():
        layer = layer_of(module)
        if layer is not None and module not in MOVED:
            by_room[layer] |= {room for room in map(layer_of, below) if room is not None} - {layer}
    return by_room


def test_no_two_modules_need_one_another():
    assert circles(graph()) == []


def test_no_two_rooms_need_one_another():
    assert circles(rooms(graph())) == []


def test_a_circle_is_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert circles({"a": {"b"}, "b": set(), "c": {"b"}}) == []


def test_what_lies_with_torch_needs_torch():
    """All but what is set in a process before torch is imported."""
    below = graph()
    sources = {module: path.read_text(encoding="utf-8") for module, path in modules().items()}
    own = {m for m in sources if m.startswith("runtime.torch.") and sources[m].strip() and m not in MOVED}
    need = {m for m in own if "import torch" in sources[m] or "from torch" in sources[m]}
    while more := {m for m in own - need if below[m] & need}:
        need |= more
    assert own - need == {"runtime.torch.cpu.process_tuning"}


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_what_its_layer_may(module):
    assert violations(module, modules()[module].read_text(encoding="utf-8")) == []


def test_every_layer_that_exists_was_read():
    read = {layer_of(module) for module in modules()}
    assert read >= ALLOWED.keys() - {"runtime.llama_cpp"}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("runtime.torch.engine", "from agentform.schema.form import Form"),
        ("runtime.torch.engine", "def f():\n    from agentform.tools.tool import Tool"),
        ("runtime.torch.engine", "async def f():\n    import agentform.agent.agent as loop"),
        ("schema.form", "class A:\n    if True:\n        import agentform.runtime.engine"),
        ("forms.draft", "from agentform.runtime import load"),
        ("forms.draft", "from agentform.runtime.torch.engine import TorchEngine"),
        ("forms.draft", "from agentform import Agent"),
        ("forms.draft", "import agentform"),
        ("agent.agent", "from agentform.runtime.scripted.engine import ScriptedEngine"),
        ("agent.agent", "from agentform.runtime.engine_room import x"),
        ("errors", "from agentform.messages import Evidence"),
        ("errors", "if TYPE_CHECKING:\n    pass\nelse:\n    from agentform.messages import Evidence"),
        ("newcomer", "import json"),
        ("cli.app", "from agentform.runtime.torch.engine import TorchEngine"),
        ("serve.app", "from agentform.turn.turn import TurnRunner"),
        ("telemetry.page", "from agentform.agent.run import Run"),
        ("runtime.sglang.client.server", "from agentform.runtime.torch.engine import TorchEngine"),
        ("runtime.tokenizer.hf_tokenizer", "if TYPE_CHECKING:\n    from agentform.runtime.torch.engine import X"),
        ("schema.load", "from agentform.schema.target import load"),
    ],
)
def test_a_bad_import_is_seen(module, source):
    assert len(violations(module, source)) == 1


def test_a_good_import_is_no_violation():
    assert violations("errors", "if TYPE_CHECKING:\n    from agentform.messages import Evidence") == []
    assert violations("forms.draft", "import json\nfrom agentform.runtime.engine import Engine") == []
    assert violations("cli.fill", "from agentform.runtime.load import load_engine") == []


@pytest.mark.parametrize("path", INTEGRATIONS, ids=lambda path: "/".join(path.parts[-2:]))
def test_an_integration_imports_only_what_is_public(path):
    assert private_names(path.read_text(encoding="utf-8")) == []


def test_integrations_are_read():
    assert INTEGRATIONS
