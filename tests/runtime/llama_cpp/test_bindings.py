"""Only a library whose release and layout are known is used."""

from __future__ import annotations

import pytest

from agentform.errors import EngineError, MissingDependency
from agentform.runtime.llama_cpp import library
from agentform.runtime.llama_cpp.bindings import Bindings, bindings
from agentform.runtime.llama_cpp.layout import layout_of
from agentform.runtime.llama_cpp.library import VARIABLE, find_library


@pytest.mark.parametrize("version", ["0.4.9", "0.7.0", "1.0", ""])
def test_a_release_that_is_not_bound_is_refused_with_those_that_are(version):
    with pytest.raises(EngineError, match=r"0\.5\.0 and 0\.6\.0"):
        layout_of(version)


def test_the_layout_of_another_release_is_noticed():
    known = bindings()
    other = layout_of("0.5.0" if known.layout.release == "0.6.0" else "0.6.0")
    raw = bytes(known.llama_context_default_params())
    context = other.context_params.from_buffer_copy(raw + bytes(16))
    with pytest.raises(EngineError, match="laid out otherwise"):
        other.check(known.llama_model_default_params(), context)


def test_the_variable_names_a_file_or_its_folder(tmp_path):
    place = tmp_path / library._file_name()
    with pytest.raises(EngineError, match="there is no"):
        find_library({VARIABLE: str(tmp_path)})
    place.write_bytes(b"no library")
    assert find_library({VARIABLE: str(tmp_path)}) == find_library({VARIABLE: str(place)}) == place
    with pytest.raises(EngineError, match="cannot be loaded"):
        Bindings(place)


def test_without_any_llama_cpp_it_is_said_how_to_get_one(monkeypatch):
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"\[llama\]"):
        find_library({})


def test_a_library_that_is_no_llama_cpp_is_refused():
    import _ctypes

    with pytest.raises(EngineError, match=r"no llama\.cpp"):
        Bindings(_ctypes.__file__)


def test_a_build_of_ones_own_is_used_where_the_variable_names_it(monkeypatch):
    place = find_library({})
    monkeypatch.setenv(VARIABLE, str(place))
    assert bindings().path == place
