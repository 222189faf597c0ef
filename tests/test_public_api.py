"""The names that users rely on, what importing them costs, and what their documentation says."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import agentform
from agentform import errors, testing
from tests.support.public_names import PUBLIC_MODULES

PUBLIC = [
    "Agent",
    "AgentRun",
    "AgentformError",
    "Allow",
    "AnswerDelta",
    "Approve",
    "ArgumentChosen",
    "ArgumentDelta",
    "CallReady",
    "ChoiceMade",
    "Conversation",
    "ConversationStore",
    "Decider",
    "Decision",
    "DecisionModel",
    "Decisions",
    "Deny",
    "DependsOn",
    "Engine",
    "EngineDecisions",
    "Event",
    "Evidence",
    "Filled",
    "HandedOff",
    "Limits",
    "Message",
    "OneOf",
    "PriorStore",
    "Reasoning",
    "ReasoningDelta",
    "Responder",
    "Response",
    "RowResult",
    "RunContext",
    "RunFinished",
    "RunResult",
    "SQLiteStore",
    "Sampling",
    "Score",
    "Scoring",
    "SnapshotPolicy",
    "Streaming",
    "ThoughtDelta",
    "Tool",
    "ToolCall",
    "ToolFinished",
    "ToolResult",
    "ToolStarted",
    "Toolbox",
    "TurnFinished",
    "Usage",
    "UseTool",
    "YesNo",
    "decide",
    "decide_many",
    "decide_many_sync",
    "decide_sync",
    "errors",
    "fill",
    "fill_many",
    "fill_many_sync",
    "fill_sync",
    "load_decider",
    "load_engine",
    "tool",
]
TESTING = [
    "ByteTokenizer",
    "Call",
    "Fail",
    "Fill",
    "Say",
    "ScriptedEngine",
    "assert_calls",
    "assert_script_done",
    "prompts",
    "scripted_call",
]
HEAVY = ("torch", "transformers", "tokenizers", "jsonschema", "numpy", "llguidance", "jinja2")

FRESH = f"""
import json, sys
import agentform, {", ".join(PUBLIC_MODULES)}
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""


def fresh_import() -> list[str]:
    """Those of HEAVY that come along when agentform is imported."""
    out = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    loaded: list[str] = json.loads(out.stdout)
    return loaded


def sources() -> list[Path]:
    """Modules that hold more than a docstring."""
    package = Path(agentform.__file__).parent
    found = [path for path in sorted(package.rglob("*.py")) if path.name != "__main__.py"]
    return [path for path in found if len(ast.parse(path.read_text(encoding="utf-8")).body) > 1]


def test_the_public_names_are_these():
    assert agentform.__all__ == PUBLIC
    assert testing.__all__ == TESTING


@pytest.mark.parametrize(
    ("module", "name"),
    [("agentform", name) for name in PUBLIC] + [("agentform.testing", name) for name in TESTING],
)
def test_a_public_name_can_be_imported_and_says_what_it_is(module, name):
    value = getattr(importlib.import_module(module), name)
    if name == "Approve":  # a type alias cannot carry a docstring of its own
        return
    if name == "Event":  # nor can a union of classes
        assert all(inspect.getdoc(kind) for kind in value.__args__)
        return
    value = typing.get_origin(value) or value
    doc = vars(value).get("__doc__") if inspect.isclass(value) else inspect.getdoc(value)
    assert doc
    assert not doc.startswith(f"{name}("), "the docstring is the one that a dataclass gives itself"


def test_importing_is_light():
    assert fresh_import() == []


@pytest.mark.parametrize(
    ("module", "name"),
    [(each, name) for each in PUBLIC_MODULES for name in importlib.import_module(each).__all__],
)
def test_a_name_of_a_public_module_is_there(module, name):
    assert getattr(importlib.import_module(module), name) is not None


def test_a_public_module_has_no_other_names():
    for module in ("agentform.engines", "agentform.serve"):
        with pytest.raises(AttributeError, match="no attribute 'other'"):
            _ = importlib.import_module(module).other


def drawn_tree(text: str) -> dict[str, str | None]:
    """Parent by name, from a drawing with four columns per level."""
    parents: dict[str, str | None] = {}
    above: list[str] = []
    for line in text.split("::", 1)[1].splitlines():
        found = re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)(\w+)", line)
        if found is None:
            continue
        level = len(found[1]) // 4
        del above[level:]
        parents[found[2]] = above[-1] if above else None
        above.append(found[2])
    return parents


def test_the_drawn_tree_of_exceptions_is_the_real_one():
    real = {
        name: None if value.__base__ is Exception else value.__base__.__name__
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }
    assert drawn_tree(errors.__doc__) == real


def test_a_drawn_tree_is_read_to_its_depth():
    assert drawn_tree("x::\n\n    A\n    ├── B  text\n    │   └── C\n    └── D\n        └── E\n") == {
        "A": None,
        "B": "A",
        "C": "B",
        "D": "A",
        "E": "D",
    }


def test_every_exception_says_when_it_is_raised():
    kinds = [v for v in vars(errors).values() if inspect.isclass(v) and issubclass(v, errors.AgentformError)]
    silent = [k.__name__ for k in kinds if k is not errors.AgentformError and not k.__doc__.startswith("Raised when")]
    assert silent == []


@pytest.mark.parametrize("path", sources(), ids=lambda path: "/".join(path.parts[-2:]))
def test_a_module_lists_its_names_and_each_is_there(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lists = [
        ast.literal_eval(node.value)
        for node in tree.body
        if (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        or (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "__all__" and node.value is not None)
    ]
    assert len(lists) == 1
    assert set(lists[0]) <= defined(tree)


def defined(tree: ast.Module) -> set[str]:
    """Names of a module, those among them that are loaded when they are asked for."""
    names: set[str] = set()
    lazy = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    for node in [*tree.body, *(inner for block in lazy for inner in block.body)]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
    return names
