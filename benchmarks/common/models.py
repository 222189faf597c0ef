"""The models that engines are measured on: the demo model, and hybrids of random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentform import load_engine
from agentform.runtime.models.resolve import resolve_model

__all__ = ["MODELS", "engine_of", "write_hybrid", "write_wordy_hybrid"]

MODELS = {
    "smollm2-135m": "SmolLM2-135M-Instruct, attention only, bfloat16",
    "hybrid": "random Qwen3.5-like hybrid: 12 layers, 9 of them gated delta, 256 wide, bfloat16",
}
_LAYERS = 12
_CONTEXT_TOKENS = 8192
_END, _EOS = "<|endoftext|>", 0


@contextmanager
def engine_of(name: str, **options: Any) -> Generator[Any]:
    """An engine of one of `MODELS`, closed at the end; `options` are `TorchEngine`'s."""
    with TemporaryDirectory() as folder:
        if name == "hybrid":
            write_hybrid(Path(folder))
        engine: Any = load_engine(folder if name == "hybrid" else name, engine="torch", **options)
        try:
            yield engine
        finally:
            engine.close()


def write_hybrid(folder: Path, **changes: Any) -> None:
    """Random weights with the horizons of trained ones, beside the demo model's tokenizer; `changes` of the config."""
    from benchmarks.common.hybrids import build

    demo = resolve_model("smollm2-135m")
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(demo / file, folder / file)
    sizes: dict[str, Any] = {
        "vocab_size": 49_152,
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": _LAYERS,
        "head_dim": 64,
        "max_position_embeddings": _CONTEXT_TOKENS,
        "bos_token_id": 1,
    }
    build(seed=0, **sizes | changes).bfloat16().save_pretrained(folder)
    _say_interval(folder / "config.json")


def write_wordy_hybrid(folder: Path, texts: Sequence[str], **sizes: Any) -> int:
    """The same where the demo model is not at hand: its tokenizer has the words of `texts` for tokens, and `sizes` are
    all the config's. No completion ends by itself. Returns the number of parameters.
    """
    from benchmarks.common.hybrids import build, draw_decay

    def initialise(path: str, parameter: Any) -> None:
        if path.endswith("embed_tokens.weight"):
            parameter[_EOS] = 0  # its logit is 0, which is never the largest
        draw_decay(path, parameter)

    _train_tokenizer(texts).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": _END}), encoding="utf-8")
    model = build(seed=0, initialise=initialise, eos_token_id=_EOS, **sizes).bfloat16()
    model.save_pretrained(folder)
    return model.num_parameters()


def _train_tokenizer(texts: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        special_tokens=[_END], initial_alphabet=alphabet, vocab_size=1000, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _say_interval(path: Path) -> None:
    """transformers writes the kind of every layer; SGLang reads how often attention comes, here and by default 4."""
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"full_attention_interval": 4}), encoding="utf-8")
