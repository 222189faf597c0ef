"""Marks for tests that need a library which not every environment has."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

__all__ = ["needs_llama_cpp"]

needs_llama_cpp = pytest.mark.skipif(find_spec("xllamacpp") is None, reason='needs llama.cpp: the extra "llama"')
