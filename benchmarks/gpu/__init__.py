"""What waits for a GPU, in one run of under ten minutes: checks and timings of the kernels, then the speed of forms.

With `--quick` everything is tiny and runs on the CPU where there is no GPU. A part that fails, or that there is no time
left for, is a line with the reason; what the others gave is kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from agentform.errors import EngineError, InvalidInput
from benchmarks import kernels
from benchmarks.common.harness import RESULTS, ROOT, Context
from benchmarks.gpu import forms as gpu_forms

__all__ = ["add_arguments", "run"]

_LIMIT_S = 540.0
_CHECKS_LIMIT_S = 200.0
_LEAST_S = {"checks": 60.0, "timings": 60.0, "forms": 120.0}
"""With less time left a part is not begun."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """Where parts run, and until when."""

    context: Context
    device: torch.device
    ends: float
    """On the monotonic clock."""

    def left_s(self) -> float:
        return self.ends - time.monotonic()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How long the whole may take."""
    parser.add_argument(
        "--limit-s",
        type=float,
        default=_LIMIT_S,
        metavar="S",
        help="nothing new is begun after S seconds",
    )


def run(context: Context) -> None:
    """All parts; the result file is written after each. Raises InvalidInput without a GPU, EngineError at a failure."""
    has_gpu = torch.cuda.is_available()
    if not has_gpu and not context.quick:
        raise InvalidInput(f"torch {torch.__version__} sees no CUDA device; --quick runs the same path without one")
    ends = time.monotonic() + context.options.get("limit_s", _LIMIT_S)
    now = _Run(context=context, device=torch.device("cuda" if has_gpu else "cpu"), ends=ends)
    if context.quick:
        context.console.print("A quick run: its figures say nothing, it shows that everything runs.")
    figures: dict[str, Any] = {"device": _about(now.device)}
    for name, part in {"checks": _checks, "timings": _timings, "forms": _forms}.items():
        context.console.rule(f"{name}, {now.left_s():.0f} s left")
        figures[name] = _attempt(now, name, part)
        context.write(figures, seeds=[0])
    failed = [f"{name}: {figures[name]['failed']}" for name in _LEAST_S if "failed" in figures[name]]
    if failed:
        raise EngineError("\n".join(failed))


def _attempt(now: _Run, name: str, part: Callable[[_Run], dict[str, Any]]) -> dict[str, Any]:
    if now.left_s() < _LEAST_S[name]:
        found = {"skipped": f"{now.left_s():.0f} s are left; this part needs {_LEAST_S[name]:.0f}"}
    else:
        try:
            return part(now)
        except Exception as error:  # the other parts are worth having all the same
            found = {"failed": f"{type(error).__name__}: {error}"}
    now.context.console.print(f"{name}:", found)
    return found


def _about(device: torch.device) -> dict[str, Any]:
    layers = "flash-linear-attention" if find_spec("fla") else "transformers' reference"
    if device.type != "cuda":
        return {"name": "CPU", "recurrent_layers": layers}
    card = torch.cuda.get_device_properties(device)
    return {"name": card.name, "bytes": card.total_memory, "cuda": torch.version.cuda, "recurrent_layers": layers}


def _checks(now: _Run) -> dict[str, Any]:
    """The kernels' tests against their references: on the card, or else under Triton's interpreter."""
    which = "test_triton_replays and size0" if now.context.quick else "test_triton"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", which, "tests/kernels"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "0" if now.device.type == "cuda" else "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=min(_CHECKS_LIMIT_S, now.left_s()),
    )
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if " in " in line), "pytest said nothing")
    now.context.console.print(said, markup=False)
    if done.returncode:
        wrong = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        raise EngineError("\n".join([said, *(wrong or lines)[-9:]]))
    return {"said": said}


def _timings(now: _Run) -> dict[str, Any]:
    tiny: dict[str, Any] = {"rounds": 1, "layers": 2, "heads": 2, "dim": 8, "tokens": 9}
    figures = kernels.measure(now.device, **tiny if now.context.quick else {})
    kernels.show(now.context.console, figures)
    return {**figures, "bars": kernels.bars(figures)}


def _forms(now: _Run) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        figures = gpu_forms.measure(
            Path(folder), device=now.device, quick=now.context.quick, left_s=now.left_s, console=now.context.console
        )
        gpu_forms.draw(figures["rows"], Path(folder) / "gpu.png" if now.context.quick else RESULTS / "gpu.png")
    return figures
