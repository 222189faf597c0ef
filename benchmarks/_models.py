"""The models that engines are measured on: the demo model, and a random hybrid of a size between toy and demo."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentform import load_engine
from agentform.runtime.torch.weights import resolve_model

__all__ = ["MODELS", "engine_of"]

MODELS = {
    "smollm2-135m": "SmolLM2-135M-Instruct, attention only, bfloat16",
    "hybrid": "random Qwen3.5-like hybrid: 12 layers, 9 of them gated delta, 256 wide, bfloat16",
}
_LAYERS = 12
_CONTEXT_TOKENS = 8192


@contextmanager
def engine_of(name: str, **options: Any) -> Generator[Any]:
    """An engine of one of `MODELS`, closed at the end; `options` are `TorchEngine`'s."""
    with TemporaryDirectory() as folder:
        if name == "hybrid":
            _write_hybrid(Path(folder))
        engine: Any = load_engine(folder if name == "hybrid" else name, **options)
        try:
            yield engine
        finally:
            engine.close()


def _write_hybrid(folder: Path) -> None:
    """Random weights with the horizons of trained ones, beside the demo model's tokenizer."""
    from benchmarks.small_hybrids import build

    demo = resolve_model("smollm2-135m")
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(demo / file, folder / file)
    model = build(
        seed=0,
        vocab_size=49_152,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=_LAYERS,
        head_dim=64,
        max_position_embeddings=_CONTEXT_TOKENS,
        bos_token_id=1,
    )
    model.bfloat16().save_pretrained(folder)
