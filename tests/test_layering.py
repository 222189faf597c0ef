"""Who may import whom, read from the source: imports inside functions count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentform

PACKAGE = Path(agentform.__file__).parent
INTEGRATIONS = sorted((PACKAGE.parent / "integrations").glob("*/src/**/*.py"))

# By room, the agentform modules that it may import; a name covers what lies below it.
LEAVES = ("_util", "errors", "messages")
ALLOWED: dict[str, tuple[str, ...]] = {
    "errors": ("messages", "_util.text"),
    "_util": ("_util", "errors"),
    "messages": (),
    "events": ("messages",),
    "json_schema": ("json_schema", "errors"),
    "schema": ("schema", "json_schema", *LEAVES),
    "grammar": ("grammar", "json_schema", *LEAVES),
    "kernels": ("kernels", "errors"),
    "tools": ("tools", "schema", "json_schema", *LEAVES),
    "runtime.engine": ("grammar.spec", "messages", "runtime.cache.statistics"),
    "runtime.load": ("runtime", *LEAVES),
    "runtime.validation": ("runtime.engine", "grammar", *LEAVES),
    "runtime.grammar_cache": ("runtime.engine", "grammar", *LEAVES),
    "runtime.preparation": ("runtime.engine", "runtime.validation", "runtime.grammar_cache", "grammar", *LEAVES),
    "runtime.thread_channel": LEAVES,
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
    "runtime.torch": ("runtime", "grammar", "kernels", *LEAVES),
    "runtime.sglang": ("runtime", "grammar", "kernels", *LEAVES),
    "runtime.llama_cpp": ("runtime", "grammar", *LEAVES),
    "decoding": ("decoding", "schema", "grammar.spec", "runtime.engine", "events", *LEAVES),
    "forms": ("forms", "decoding", "schema", "grammar.spec", "runtime.engine", "events", *LEAVES),
    "turn": ("turn", "forms", "decoding", "schema", "grammar.spec", "runtime.engine", "events", *LEAVES),
    "agent": (
        "agent",
        "turn",
        "forms",
        "decoding",
        "tools",
        "events",
        "runtime.engine",
        "schema.json_text",
        "schema.target",
        *LEAVES,
    ),
    "agent.testing": ("messages", "runtime.engine", "runtime.scripted"),
}
# Users' side of the package: it may use whatever it is made of.
OPEN = ("", "__main__", "cli", "runtime", "serve", "telemetry", "testing")
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
    layer = layer_of(module)
    if layer is None:
        return [] if module.split(".")[0] in OPEN else [f"{module} is in no layer"]
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
    ],
)
def test_a_bad_import_is_seen(module, source):
    assert len(violations(module, source)) == 1


def test_a_good_import_is_no_violation():
    assert violations("errors", "if TYPE_CHECKING:\n    from agentform.messages import Evidence") == []
    assert violations("forms.draft", "import json\nfrom agentform.runtime.engine import Engine") == []
    assert violations("cli", "from agentform.runtime.torch.engine import TorchEngine") == []


@pytest.mark.parametrize("path", INTEGRATIONS, ids=lambda path: "/".join(path.parts[-2:]))
def test_an_integration_imports_only_what_is_public(path):
    names = [name for name, _ in imports(path.read_text(encoding="utf-8"))]
    assert [name for name in names if name.split(".")[0] not in ("", "errors", "testing", *agentform.__all__)] == []


def test_integrations_are_read():
    assert INTEGRATIONS
