"""What runs with llama.cpp's library, the extra "llama"; SGLang's environment has none."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("xllamacpp") is not None else ["test_*.py"]
