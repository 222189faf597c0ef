"""`agentform tune --adapter`: from labelled examples to an adapter in its folder.

::

    examples ──the engine's own tokens──▶ decisions ──split──▶ train ──▶ the best evaluation
                                                                │          │ weakened until free text keeps
    topics ──the engine writes──▶ free texts, half held out ────┘          ▼
                                                    peft's files, adapter.gguf, agentform.json
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agentform._util.sync import run_blocking
from agentform.errors import InvalidInput, WeightsCorrupt
from agentform.runtime.choice import choose_engine
from agentform.runtime.engine import Engine
from agentform.runtime.free_cores import FreeCores
from agentform.runtime.idle_threads import let_idle_threads_sleep
from agentform.runtime.labelled import LabelledDecision
from agentform.runtime.load import load_engine
from agentform.runtime.models.adapter_file import AdapterFacts, adapters_folder, find_adapter, write_facts
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.extras import torch_extra
from agentform.runtime.models.resolve import resolve_model
from agentform.runtime.models.weights_identity import weights_identity
from agentform.training.examples import read_decisions
from agentform.training.free_text import topic_prompts, write_texts
from agentform.training.material import FreeText, Parts, split
from agentform.training.settings import AdapterSettings, Progress, TrainedAdapter

__all__ = ["train_adapter"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CHECKPOINT = "training.pt"
_NUM_OWN_PROMPTS = 12
_SEAM = 2


def train_adapter(
    model: str,
    examples: Path,
    *,
    name: str,
    folder: Path | None = None,
    gguf: Path | None = None,
    settings: AdapterSettings | None = None,
    device: str | None = None,
    num_threads: int | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> TrainedAdapter:
    """Train a LoRA adapter on the decisions of labelled examples; one that was interrupted goes on.

    Args:
        model: A catalogue name, a model folder, a hub id or a GGUF file.
        examples: JSON lines, see `agentform.training.examples`.
        name: What it is loaded by.
        folder: Where it is written, by default under its name in the user's cache folder.
        gguf: A GGUF file of the same model that it may be laid over too, where `model` is a folder.
        settings: How it is trained.
        device: Where, by default CUDA where there is one, else the CPU.
        num_threads: Threads that are computed with, by default as many as there are free cores, anew each second.
        on_progress: Told before every step.
        on_stage: Told what is done, in a few words.

    Raises:
        InvalidInput: the examples are none, or the name is no name.
        InvalidRequest: the folder holds an adapter for another model.
        MissingDependency: peft is not installed.
        EngineError: the model cannot be loaded.
    """
    settings = settings or AdapterSettings()
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"an adapter's name is of letters, digits, dots, dashes and underscores; got {name!r}")
    base, gguf_of_it = _base(model)
    bases = _bases(base, [each for each in (gguf_of_it, gguf) if each is not None])
    target = _made(folder or adapters_folder() / name, base)
    let_idle_threads_sleep()
    on_stage("reading the examples as the model will see them")
    asked = _ask(model, examples, settings)
    with torch_extra():
        trained = _trained(base, asked, target, settings, device, FreeCores(num_threads), on_progress, on_stage)
    write_facts(target, AdapterFacts(model=model, bases=bases, measured=_measured(trained)))
    (target / _CHECKPOINT).unlink(missing_ok=True)
    return trained


def _base(model: str) -> tuple[Path, Path | None]:
    """The weights that are trained on, and a GGUF of the same beside them."""
    if model in CATALOGUE and CATALOGUE[model].engine == "torch":
        folder = resolve_model(model)
        beside = folder / CATALOGUE[model].gguf
        return folder, beside if beside.is_file() else None
    return choose_engine(model).path, None


def _bases(base: Path, ggufs: Sequence[Path]) -> dict[str, str]:
    found = {"folder" if base.is_dir() else "gguf": weights_identity(base)}
    for number, gguf in enumerate(ggufs):
        found[f"gguf {number + 1}"] = weights_identity(gguf)
    return found


def _made(folder: Path, base: Path) -> Path:
    """The folder, if there is nothing in it that belongs to another model."""
    if (folder / "agentform.json").is_file():
        find_adapter(folder, base=base)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WeightsCorrupt(f"{folder} cannot be made: {error}") from error
    return folder


@dataclass(frozen=True, kw_only=True)
class _Material:
    """What the engine that will serve the model makes of the examples."""

    decisions: list[LabelledDecision]
    parts: Parts
    texts: list[FreeText]


def _ask(model: str, examples: Path, settings: AdapterSettings) -> _Material:
    engine = load_engine(model)

    async def ask() -> _Material:
        try:
            decisions = read_decisions(engine, examples)
            parts = split(decisions, settings)
            prompts = [*topic_prompts(engine), *_own_prompts(engine, decisions)]
            texts = await write_texts(engine, prompts, seed=settings.seed)
            return _Material(decisions=decisions, parts=parts, texts=texts)
        finally:
            await engine.aclose()

    return run_blocking(ask)


def _own_prompts(engine: Engine, decisions: Sequence[LabelledDecision]) -> list[tuple[int, ...]]:
    """Prompts of the examples after which text may stand as well as what is decided."""
    seam = topic_prompts(engine)[0][-_SEAM:]
    found = dict.fromkeys(each.prompt_ids for each in decisions if each.prompt_ids[-_SEAM:] == seam)
    return list(found)[:_NUM_OWN_PROMPTS]


def _trained(
    base: Path,
    asked: _Material,
    target: Path,
    settings: AdapterSettings,
    device: str | None,
    cores: FreeCores,
    on_progress: Callable[[Progress], None],
    on_stage: Callable[[str], None],
) -> TrainedAdapter:
    import torch

    from agentform.training.checkpoint import Checkpoint, fingerprint
    from agentform.training.export import export_gguf
    from agentform.training.model import TrainedModel
    from agentform.training.train import quality, text_perplexity, train, weaken_until_text_keeps

    on_stage("loading the weights to train on")
    model = TrainedModel(base, settings, torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
    parts = asked.parts
    learnt_texts, held_texts = asked.texts[::2], asked.texts[1::2]
    with model.without_adapter():
        before, text_before = quality(model, parts.held_out), text_perplexity(model, held_texts)
    on_stage("training")
    state = Checkpoint.read(target / _CHECKPOINT, fingerprint(weights_identity(base), asked.decisions, settings))
    train(model, parts, learnt_texts, settings, state, keep=target / _CHECKPOINT, cores=cores, on_progress=on_progress)
    on_stage("measuring what free text has lost")
    most = text_before * (1 + settings.max_text_growth)
    strength, text_after = weaken_until_text_keeps(model, held_texts, most)
    after = quality(model, parts.held_out)
    if after.surprise > before.surprise:  # what is left of it is worse than nothing
        model.weaken(0.0)
        strength, text_after, after = 0.0, text_before, before
    model.save(target)
    why_not = export_gguf(target, model.config.get_text_config())
    return TrainedAdapter(
        folder=target,
        num_trained=len(parts.trained),
        num_held_out=len(parts.held_out),
        before=before,
        after=after,
        perplexity_before=text_before,
        perplexity_after=text_after,
        strength=strength,
        exported=not why_not,
        why_not=why_not,
    )


def _measured(trained: TrainedAdapter) -> dict[str, object]:
    return {key: value for key, value in asdict(trained).items() if key != "folder"}
