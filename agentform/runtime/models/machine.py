"""What decides, of a machine, which engine and which weights serve a model fastest; read without importing torch."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["Machine", "this_machine"]

_PROCESSOR_FILE = Path("/proc/cpuinfo")
_CUDA_DEVICE = Path("/dev/nvidiactl")
_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_tile"})


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Facts of a machine and of what is installed on it."""

    processor: str
    """Such as "x86_64"."""
    has_bfloat16: bool
    """Whether the processor multiplies bfloat16 by itself; else torch computes in float32."""
    has_cuda: bool
    has_torch: bool
    has_llama_cpp: bool


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        processor=platform.machine(),
        has_bfloat16=bool(_flags() & _BFLOAT16_FLAGS),
        has_cuda=_CUDA_DEVICE.exists(),
        has_torch=find_spec("torch") is not None and find_spec("transformers") is not None,
        has_llama_cpp=find_spec("xllamacpp") is not None or find_spec("llama_cpp") is not None,
    )


def _flags() -> frozenset[str]:
    """What the processor can do, where the system tells; else nothing."""
    try:
        lines = _PROCESSOR_FILE.read_text().splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(found.partition(":")[2].split())
