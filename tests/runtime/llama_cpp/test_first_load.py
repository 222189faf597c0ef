"""A file that llama.cpp ends a process over ends another process than this one."""

from __future__ import annotations

import os

import pytest

from agentform.errors import WeightsCorrupt
from agentform.runtime.llama_cpp import first_load
from agentform.runtime.llama_cpp.engine import LlamaCppEngine
from agentform.runtime.llama_cpp.first_load import is_wanted, load_elsewhere_first
from tests.support.gguf_zoo import write_tiny_gguf


@pytest.fixture
def gguf(tmp_path):
    return write_tiny_gguf("attention", tmp_path / "tiny.gguf")


def script(tmp_path, monkeypatch, text):
    path = tmp_path / "script.py"
    path.write_text(text)
    monkeypatch.setattr(first_load, "_SCRIPT", path)


def test_a_file_that_loads_is_tried_once(gguf, tmp_path, monkeypatch):
    load_elsewhere_first([gguf], folder=tmp_path / "marks")
    script(tmp_path, monkeypatch, "print('begun', flush=True); import os; os.abort()")
    load_elsewhere_first([gguf], folder=tmp_path / "marks")
    os.utime(gguf, (1, 1))  # another file by now
    with pytest.raises(WeightsCorrupt, match="SIGABRT"):
        load_elsewhere_first([gguf], folder=tmp_path / "marks")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import os, sys; sys.stderr.write('GGML_ASSERT(\\x1b[2J) failed'); sys.stderr.flush(); os.abort()",
            "GGML_ASSERT",
        ),
        ("import os; os._exit(1)", "status 1"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import time; time.sleep(600)", "not loaded within"),
    ],
)
def test_whatever_ends_the_process_is_an_error_that_names_the_file(gguf, tmp_path, monkeypatch, text, said):
    monkeypatch.setattr(first_load, "_LEAST_S", 3.0 if "sleep" in text else 600.0)
    script(tmp_path, monkeypatch, f"print('begun', flush=True); {text}")
    with pytest.raises(WeightsCorrupt, match=said) as caught:
        load_elsewhere_first([gguf], folder=tmp_path / "marks")
    assert str(gguf) in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert not (tmp_path / "marks").exists()


def test_where_no_process_begins_the_file_is_loaded_without_a_trial(gguf, tmp_path, monkeypatch, caplog):
    script(tmp_path, monkeypatch, "raise ImportError")
    load_elsewhere_first([gguf], folder=tmp_path / "marks")
    assert "without a trial" in caplog.text


def test_the_engine_tries_first_unless_it_is_told_not_to(gguf, tmp_path, monkeypatch):
    script(tmp_path, monkeypatch, "print('begun', flush=True); import os; os.abort()")
    monkeypatch.setattr(first_load, "cache_home", lambda: tmp_path / "home")
    with pytest.raises(WeightsCorrupt, match="SIGABRT"):
        LlamaCppEngine(gguf, kv_budget_bytes=4 << 20, num_threads=1, try_first=True)
    LlamaCppEngine(gguf, kv_budget_bytes=4 << 20, num_threads=1, try_first=False).close()


def test_a_variable_switches_it_off():
    assert is_wanted({})
    assert not is_wanted({"AGENTFORM_TRIAL_LOAD": "0"})
