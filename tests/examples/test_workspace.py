"""The coding agent's file tools stay inside their folder, within their limits, and ask before they write."""

from __future__ import annotations

import contextlib
import os
import runpy
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

MODULE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "coding_agent" / "workspace.py"))
Workspace, NotAllowed = MODULE["Workspace"], MODULE["NotAllowed"]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "outside.txt").write_text("secret")
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x = 1\ny = 1\n")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("secret")
    os.symlink(tmp_path / "outside.txt", root / "link.txt")
    os.symlink(tmp_path, root / "up")
    return root


@pytest.fixture
def workspace(root):
    return Workspace(root, max_bytes=1000)


def tools_of(workspace):
    return {tool.name: tool for tool in workspace.tools()}


ESCAPES = [
    "../outside.txt",
    "/etc/passwd",
    "src/../../outside.txt",
    "link.txt",
    "up/outside.txt",
    ".git/config",
    ".",
    "",
    "a\0b",
]
PARTS = ["..", ".", "up", "src", "link.txt", "/", "new", ".git", "~", "..."]


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out_or_to_what_is_hidden(path, workspace):
    with pytest.raises(NotAllowed):
        workspace.read(path)
    with pytest.raises(NotAllowed):
        workspace.edit(path, "s", "t")
    with pytest.raises(NotAllowed):
        workspace.create(path, "t")
    with pytest.raises(NotAllowed):
        tools_of(workspace)["write_file"](path, "t")


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=6))
def test_what_is_written_is_inside(parts):
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "project")
        (root / "src").mkdir(parents=True)
        os.symlink(scratch, root / "up")
        before = {path for path in Path(scratch).rglob("*") if not path.is_relative_to(root)}
        with contextlib.suppress(NotAllowed, OSError):
            tools_of(Workspace(root))["write_file"]("/".join(parts), "t")
        assert {path for path in Path(scratch).rglob("*") if not path.is_relative_to(root)} == before


def test_only_plain_visible_files_are_listed(workspace):
    assert workspace.files() == ["src/a.py"]


def test_an_edit_is_seen_before_it_is_made(workspace, root):
    arguments = {"path": "src/a.py", "old": "x = 1", "new": "x = 2"}
    assert "-x = 1\n+x = 2\n" in workspace.change("edit_file", arguments).diff
    assert (root / "src" / "a.py").read_text() == "x = 1\ny = 1\n"
    assert tools_of(workspace)["edit_file"](**arguments) == "src/a.py is written."
    assert (root / "src" / "a.py").read_text() == "x = 2\ny = 1\n"
    assert [path.name for path in (root / "src").iterdir()] == ["a.py"]
    assert workspace.change("read_file", {"path": "src/a.py"}) is None


@pytest.mark.parametrize(("old", "num"), [("= 1", 2), ("z", 0)])
def test_the_text_to_replace_must_be_there_once(old, num, workspace):
    with pytest.raises(NotAllowed, match=f"{num} times"):
        workspace.edit("src/a.py", old, "2")


def test_sizes_are_limited(workspace, root):
    (root / "big.txt").write_text("a" * 1001)
    with pytest.raises(NotAllowed, match="more than 1,000 bytes"):
        workspace.read("big.txt")
    with pytest.raises(NotAllowed, match="more than 1,000 bytes"):
        tools_of(workspace)["write_file"]("new.txt", "ä" * 501)
    (root / "binary").write_bytes(b"\xff")
    with pytest.raises(NotAllowed, match="UTF-8"):
        workspace.read("binary")


def test_a_new_file_does_not_replace_one(workspace, root):
    tools_of(workspace)["write_file"]("lib/b.py", "b")
    assert (root / "lib" / "b.py").read_text() == "b"
    with pytest.raises(NotAllowed, match="exists"):
        workspace.create("src/a.py", "")


def test_files_to_read_are_chosen_among_those_that_are_there(workspace):
    tools = tools_of(workspace)
    assert sorted(tools) == ["edit_file", "list_files", "read_file", "write_file"]
    assert tools["read_file"].target.validator.check({"path": "src/a.py"}) == ()
    assert tools["read_file"].target.validator.check({"path": "../outside.txt"})


def test_an_edit_keeps_the_ends_of_lines_and_the_mode(tmp_path):
    place = tmp_path / "run.bat"
    place.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    place.chmod(0o750)
    workspace = Workspace(tmp_path)
    assert workspace.read("run.bat") == "one\ntwo\nthree\n"
    workspace._write(workspace.edit("run.bat", "two\nthree", "2\n3"))
    assert place.read_bytes() == b"one\r\n2\r\n3\r\n"
    assert place.stat().st_mode & 0o777 == 0o750
    workspace._write(workspace.create("new.txt", "a\r\nb\n"))
    assert (tmp_path / "new.txt").read_bytes() == b"a\r\nb\n"
