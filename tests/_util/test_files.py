from __future__ import annotations

import os
import stat
import sys

import pytest

from agentform._util.files import replacing, write_atomically


@pytest.mark.parametrize("content", ["né", "né".encode(), [b"n", "é".encode()]])
def test_text_bytes_and_parts_are_written_alike(tmp_path, content):
    write_atomically(tmp_path / "file", content, durable=True)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "né"
    assert os.listdir(tmp_path) == ["file"]


def test_an_error_in_the_middle_leaves_what_was_there_and_nothing_else(tmp_path):
    def parts():
        yield b"half"
        raise RuntimeError("no more")

    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="no more"):
        write_atomically(path, parts())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_reader_sees_the_old_file_until_all_of_the_new_one_is_there(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path, suffix=".part") as beside:
        beside.write_text("new")
        assert path.read_text() == "old"
        assert [beside.name] == [
            name for name in os.listdir(tmp_path) if name.startswith(".") and name.endswith(".part")
        ]
    assert path.read_text() == "new"


def test_two_writers_have_places_of_their_own(tmp_path):
    with replacing(tmp_path / "file") as first, replacing(tmp_path / "file") as second:
        assert first != second
        first.write_text("1")
        second.write_text("2")
    assert (tmp_path / "file").read_text() == "1"  # the outer block ends last


def test_nothing_is_made_where_nothing_was_written(tmp_path):
    with pytest.raises(OSError, match="file"), replacing(tmp_path / "file"):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_file_is_the_users_alone_unless_it_is_said_otherwise(tmp_path):
    umask = os.umask(0o022)
    try:
        write_atomically(tmp_path / "own", "x")
        write_atomically(tmp_path / "shown", "x", mode=0o666)
    finally:
        os.umask(umask)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("own", "shown")] == [0o600, 0o644]
