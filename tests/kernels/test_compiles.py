"""The kernels compile for a GPU, also where there is none: the interpreter does not tell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from agentform.kernels.gated_delta.triton import _gated_delta_rule_kernel
from agentform.kernels.state_pack.triton import _pack, _pack_int4, _unpack


def compiled(kernel, arguments, **constants):
    names = kernel.arg_names
    kinds = arguments + ["constexpr"] * len(constants)
    source = ASTSource(
        fn=kernel,
        signature=dict(zip(names, kinds, strict=True)),
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )
    options = {"enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["cubin"]


tile = {"block_rows": 32, "block_value": 128}
for state in ("*fp32", "*bf16"):
    assert compiled(_pack, [state, "*i64", "*i8", "*fp32"] + ["i32"] * 6, **tile)
    assert compiled(_pack_int4, [state, "*i64", "*u8", "*bf16"] + ["i32"] * 7, block_rows=32, block_half=64)
    for has_int4 in (False, True):
        packed = ["*i8", "*fp32", "*u8", "*bf16", "*i32"]
        assert compiled(_unpack, [*packed, state] + ["i32"] * 8, has_int4=has_int4, **tile)
inputs = ["*bf16", "*bf16", "*bf16", "*fp32", "*bf16", "*i32", "*i32", "*fp32", "*fp32", "*bf16", "fp32"]
for per_channel in (False, True):
    for reads in (False, True):
        flags = {"per_channel": per_channel, "reads": reads, "block_key": 128, "block_value": 32}
        assert compiled(_gated_delta_rule_kernel, inputs + ["i32"] * 13, **flags)
"""


def test_every_kernel_compiles_for_a_gpu(tmp_path):
    pytest.importorskip("triton", reason="Triton has no build for this platform")
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
