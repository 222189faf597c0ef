"""Every Python block of the documentation runs, every command exists, and every doctest holds."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import agentform
from agentform import errors
from agentform.cli.app import app
from agentform.runtime.cache import miss_reasons as misses
from tests.support.doc_blocks import Block, blocks_of, commands_of
from tests.support.public_names import PUBLIC_MODULES, is_public, names_in_prose, private_names

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
RUN = ("agentform plan", "agentform models list", "agentform cache")
"""Commands that cost little: they are run where the page has them, without these options and sources."""
LEFT_OUT = ("--probe", "--watch", "http://")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code_of(page: Path) -> list[Block]:
    """The page's Python; tests/sglang/test_shown.py runs the page that needs SGLang."""
    if page.name == "sglang.md":
        return []
    return [block for block in blocks_of(page) if runs_here(block)]


def runs_here(block: Block) -> bool:
    """Blocks that need a server are run by tests/runtime/sglang/test_shown.py."""
    return block.language == "python" and "http://" not in block.text


def with_marks(pages: list[Path]) -> list[object]:
    """Pages with code; those that load the demo model carry its mark."""
    coded = [(page, "smollm2-135m" in page.read_text(encoding="utf-8")) for page in pages if code_of(page)]
    return [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.model] if on_model else []) for page, on_model in coded
    ]


def test_a_page_is_read_as_a_reader_sees_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        'x\n\n```python title="a.py"\nprint(1)\n```\n\n- y\n\n    ```console\n    $ a b  # c\n    z\n    ```\n'
    )
    code, console = blocks_of(page)
    assert (code.language, code.title, code.text, code.line) == ("python", "a.py", "print(1)\n", 4)
    assert commands_of(console) == ["a b"]


@pytest.mark.parametrize("page", with_marks(PAGES))
def test_the_blocks_of_a_page_run_in_their_order(page, tmp_path, monkeypatch, request):
    if request.node.get_closest_marker("model"):
        request.getfixturevalue("weights_folder")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own_modules(page, request)
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block in blocks_of(page):
        if block.title and not block.is_output:
            Path(block.title).write_text(block.text, encoding="utf-8")
        if runs_here(block):
            printed = run_block(block, page, namespace)
        elif block.is_output:
            assert printed.rstrip() == block.text.rstrip(), f"{name_of(page)}:{block.line}"
        for command in commands_of(block):
            if command.startswith(RUN) and not any(option in command for option in LEFT_OUT):
                run_command(command, tmp_path)


def own_modules(page: Path, request: pytest.FixtureRequest) -> None:
    """See to it that the page's files are what it imports, not modules of the same names that others left."""
    names = [Path(block.title).stem for block in code_of(page) if block.title]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}

    def restore() -> None:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(others)

    request.addfinalizer(restore)


def run_block(block: Block, page: Path, namespace: dict[str, object]) -> str:
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def run_command(command: str, folder: Path) -> None:
    arguments = [sys.executable, "-m", *shlex.split(command)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=240, cwd=folder, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_of_a_page_exists_with_its_options(page):
    for block in blocks_of(page):
        for command in commands_of(block):
            words = shlex.split(command)
            if Path(words[0]).name == "agentform":
                check_command(words[1:])


def check_command(words: list[str]) -> None:
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        assert name in command.commands, f"no command {name!r}"
        command = command.commands[name]
    with command.make_context(command.name, words):
        pass


def test_a_command_that_does_not_exist_is_seen():
    check_command(["plan", "a:b", "--lint"])
    with pytest.raises(AssertionError, match="no command 'plam'"):
        check_command(["plam", "a:b"])
    with pytest.raises(Exception, match="No such option"):
        check_command(["plan", "a:b", "--lynt"])


INSIDE = ("architecture.md", "cache.md", "glossary.md", "measurements.md", "snapshots.md")
"""Pages that tell how it works inside, and name rooms for that; what they import is public all the same."""
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_imports_and_names_only_what_is_public(page):
    python = [block.text for block in blocks_of(page) if block.language == "python"]
    assert [name for text in python for name in private_names(text)] == []
    if page.name not in INSIDE:
        text = page.read_text(encoding="utf-8")
        assert [name for name in names_in_prose(text) if not is_public(name)] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_an_example_imports_only_what_is_public(path):
    assert private_names(path.read_text(encoding="utf-8")) == []


def test_what_is_not_public_is_seen():
    assert private_names("from agentform.runtime.load import load_engine") == ["agentform.runtime.load.load_engine"]
    assert private_names("from agentform.engines import TorchEngine, Engine\nimport agentform, json") == []
    assert private_names("from agentform import Agent, nothing") == ["agentform.nothing"]
    assert private_names("import agentform.schema.target") == ["agentform.schema.target"]
    assert names_in_prose("`agentform.schema.load_target`, agentform.usage.tokens and x") == [
        "agentform.schema.load_target"
    ]


def modules_with_doctests() -> list[str]:
    package = Path(agentform.__file__).parent
    found = [path for path in sorted(package.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(package.parent).with_suffix("").parts) for path in found]


@pytest.mark.parametrize("module", modules_with_doctests())
def test_doctests_hold(module):
    failed, tried = doctest.testmod(importlib.import_module(module.removesuffix(".__init__")))
    assert tried > 0
    assert failed == 0


def test_every_page_of_the_site_is_in_its_navigation():
    shown = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    lines = [line for line in shown.splitlines() if not line.strip().startswith("#")]
    missing = [
        name
        for page in PAGES[1:]
        if not any(line.endswith(name := str(page.relative_to(ROOT / "docs"))) for line in lines)
    ]
    assert missing == []


def test_every_public_name_is_in_the_reference():
    shown = {
        line.removeprefix("::: ").strip()
        for page in ROOT.glob("docs/reference/*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("::: ")
    }
    missing = [
        name
        for name in agentform.__all__
        if not {f"{module}.{name}" for module in ("agentform", *PUBLIC_MODULES)} & shown
        and getattr(getattr(agentform, name), "__module__", "") not in shown
    ]
    assert missing == ["Event"]  # a union, which is shown with the messages


def test_every_error_is_explained():
    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    raised = [kind.__name__ for kind in kinds if not kind.__subclasses__()]
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert [name for name in raised if f"`{name}`" not in text] == []


def test_every_miss_reason_is_explained():
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    source = inspect.getsource(misses)
    said = set(re.findall(r'text=f?"([^"]*)"', source))
    assert said
    assert [each for each in said if f"`{re.sub('{.*', 'N', each)}`" not in text] == []


def test_json_files_beside_the_pages_are_json():
    for file in ROOT.glob("docs/**/*.json"):
        json.loads(file.read_text(encoding="utf-8"))
