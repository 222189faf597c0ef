"""Which engine runs a model on this machine, why, and what it takes; what `agentform models engine` prints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentform.errors import ModelNotFound
from agentform.runtime.choice import EngineChoice, choose_engine
from agentform.runtime.free_cores import FreeCores
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.machine import Machine, this_machine
from agentform.runtime.models.model_files import find_gguf
from agentform.runtime.models.resolve import is_ready

if TYPE_CHECKING:
    from agentform.runtime.llama_cpp.model import LlamaModel

__all__ = ["digest_of_file", "facts_of"]


def facts_of(name: str, *, engine: str | None = None) -> Iterator[tuple[str, str]]:
    """What and value, line by line.

    Raises:
        EngineError: there is no such model or engine, or it cannot be read.
    """
    choice = choose_engine(name, asked=engine)
    yield "engine", choice.engine
    yield "why", choice.why
    yield "path", str(choice.path)
    yield "machine", _machine(this_machine())
    yield from _of_file(choice) if choice.engine == "llama_cpp" else _of_folder(choice.path)


def digest_of_file(name: str) -> str | None:
    """What identifies the GGUF file that a name means on this machine; `None` where it is not here or torch runs it.

    Nothing is fetched.

    Raises:
        WeightsCorrupt: the file cannot be read.
    """
    try:
        ready = is_ready(CATALOGUE[name], gguf_alone=True) if name in CATALOGUE else find_gguf(name) is not None
    except ModelNotFound:  # several files in a folder: which one is meant is not known
        return None
    choice = choose_engine(name, progress=False) if ready else None
    if choice is None or choice.engine != "llama_cpp":
        return None
    from agentform.runtime.llama_cpp.model import LlamaModel

    model = LlamaModel(choice.path, vocabulary_only=True)
    try:
        return model.digest
    finally:
        model.close()


def _of_file(choice: EngineChoice) -> Iterator[tuple[str, str]]:
    from agentform.runtime.llama_cpp.model import LlamaModel

    model = LlamaModel(choice.path, vocabulary_only=True)
    try:
        yield "library", f"llama.cpp {model.api.version} ({model.api.path})"
        yield "architecture", model.metadata.get("general.architecture", "not told")
        yield "context", f"{_number(model, 'context_length'):,} tokens"
        yield "layers", _layers(model)
        yield "weights", _size(*model.paths)
        yield "chat template", "yes" if model.chat_template() else "none: an instruction-tuned model is needed"
        yield "threads", str(FreeCores().num)
    finally:
        model.close()


def _layers(model: LlamaModel) -> str:
    if model.is_recurrent:
        return "some with a recurrent state: prompts resume at snapshots"
    window = _number(model, "attention.sliding_window")
    return f"some with a window of {window:,} tokens" if window else "attention"


def _number(model: LlamaModel, field: str) -> int:
    """A field of the file's architecture; 0 if it is not there."""
    found = model.metadata.get(f"{model.metadata.get('general.architecture')}.{field}", "")
    return int(found) if found.isdigit() else 0


def _of_folder(folder: Path) -> Iterator[tuple[str, str]]:
    yield "weights", _size(*folder.glob("*.safetensors"))


def _size(*files: Path) -> str:
    return f"{sum(file.stat().st_size for file in files) / 1e6:,.0f} MB"


def _machine(found: Machine) -> str:
    has = [("bfloat16", found.has_bfloat16), ("CUDA", found.has_cuda)]
    has += [("torch", found.has_torch), ("llama.cpp", found.has_llama_cpp)]
    return ", ".join([found.processor, *(f"{what}: {'yes' if value else 'no'}" for what, value in has)])
