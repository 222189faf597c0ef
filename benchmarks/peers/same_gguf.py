"""Runs on a GGUF file: agentform's engine on llama.cpp beside llama.cpp's own server, and what is asked of it there.

Each model, engine and number of threads has a result file of its own; results/peers.json is that of the usual run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentform.runtime.engine import Tokenizer
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.resolve import catalogue_gguf, resolve_model
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from benchmarks.peers.lines import Line, Share
from benchmarks.peers.task import Model

__all__ = ["GGUF_PEERS", "is_usual", "model_of", "run_name", "tokenizer_of", "with_goals"]

GGUF_PEERS = ("llama_cpp", "langchain")
"""Who runs a model of which there is a GGUF file and nothing else."""
_LLAMA = "llama_cpp"
_GOALS = {
    "9 closed fields, warm 500-token prompt": 6.0,
    "a turn of a conversation": 4.0,
    "free text, one token": 1 / 1.1,
    **{f"reading a prompt of {tokens} tokens, per token": 1.0 for tokens in (128, 512, 1024, 2048)},
    "process start to first call": 1.0,
    "memory peak": 1 / 1.2,
}
"""What llama.cpp takes over what agentform takes on the same file, at least; for processors with AVX2."""


def model_of(options: Mapping[str, Any]) -> Model:
    """The model that all run, its files fetched if need be; without a folder where it comes as a GGUF file only."""
    entry = CATALOGUE[options["model"]]
    engine = options["engine"] or entry.engine
    gguf = catalogue_gguf(entry)
    if entry.engine == "llama_cpp" and engine == "torch":
        raise SystemExit(f"--engine: {entry.name} comes as a GGUF file only, which torch does not run")
    folder = str(resolve_model(entry.name)) if entry.engine == "torch" else ""
    return Model(folder=folder, gguf=str(gguf), threads=options["threads"], name=entry.name, engine=engine)


def tokenizer_of(model: Model) -> Tokenizer:
    """The model's tokenizer, from its folder or from the GGUF file alone."""
    if model.folder:
        return HFTokenizer(Path(model.folder))
    from agentform.runtime.llama_cpp.model import LlamaModel
    from agentform.runtime.llama_cpp.tokenizer import LlamaTokenizer

    return LlamaTokenizer(LlamaModel(Path(model.gguf), vocabulary_only=True))


def is_usual(model: Model) -> bool:
    """Whether it is the run that the documents tell of."""
    return model.engine == "torch"


def run_name(name: str, model: Model) -> str:
    """Of the result file."""
    return name if is_usual(model) else f"{name}_{model.engine}_{model.name}_{model.threads}"


def with_goals(lines: Sequence[Line | Share]) -> list[Line | Share]:
    """The lines with the goals for one GGUF file, and no others."""
    return [
        replace(line, bar=_GOALS.get(line.what), against=_LLAMA, limit=None) if isinstance(line, Line) else line
        for line in lines
    ]
