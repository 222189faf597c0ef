"""Adapters as folders: what they change of a model, and which model that is.

::

    adapter_config.json, adapter_model.safetensors      as peft writes and reads them
    adapter.gguf                                         the same for llama.cpp
    agentform.json                                       the models that it is for, and what was measured
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentform._util.files import write_atomically
from agentform._util.paths import cache_home
from agentform.errors import InvalidRequest, ModelNotFound, WeightsCorrupt
from agentform.runtime.models.weights_identity import weights_identity

__all__ = [
    "GGUF_NAME",
    "AdapterFacts",
    "adapter_digest",
    "adapter_scale",
    "adapters_folder",
    "find_adapter",
    "learnt_scoring",
    "model_of",
    "write_facts",
]

GGUF_NAME = "adapter.gguf"
_FACTS = "agentform.json"
_WEIGHTS = "adapter_model.safetensors"
_CONFIG = "adapter_config.json"


@dataclass(frozen=True, kw_only=True)
class AdapterFacts:
    """What agentform knows of an adapter that it trained."""

    model: str
    """The name by which the model was loaded."""
    bases: Mapping[str, str]
    """`weights_identity` of the weights that it may be laid over, by what they are: "folder", "gguf"."""
    measured: Mapping[str, Any] = field(default_factory=dict[str, Any])


def adapters_folder(home: Path | None = None) -> Path:
    """Where adapters lie that were given a name, one folder each."""
    return (cache_home() if home is None else home) / "adapters"


def write_facts(folder: Path, facts: AdapterFacts) -> None:
    """Write them into an adapter's folder; whole or not at all."""
    write_atomically(folder / _FACTS, json.dumps(asdict(facts), indent=2) + "\n")


def find_adapter(name: str | Path, *, base: Path, home: Path | None = None) -> Path:
    """The folder of an adapter, by name or path, that belongs to the model whose weights are at `base`.

    An adapter that was not trained by agentform says nothing of its model, and is taken as it is.

    Raises:
        ModelNotFound: there is none.
        InvalidRequest: it was trained for another model.
        WeightsCorrupt: its files are damaged, or not those of an adapter.
    """
    folder = _place(name, home)
    if not (folder / _CONFIG).is_file():
        raise WeightsCorrupt(f"{folder} is no adapter: it has no {_CONFIG}")
    if not (folder / _FACTS).is_file():
        return folder
    facts = _facts(folder / _FACTS)
    if weights_identity(base) not in facts.bases.values():
        raise InvalidRequest(
            f"the adapter {folder.name!r} was trained for {facts.model}, not for the weights at {base}; "
            f"train one with `agentform tune MODEL --adapter FILE`, or load {facts.model}"
        )
    return folder


def _place(name: str | Path, home: Path | None) -> Path:
    named = adapters_folder(home) / str(name)
    path = Path(name).expanduser()
    if str(name) == named.name and named.is_dir():
        return named
    if path.is_dir():
        return path
    known = sorted(each.name for each in adapters_folder(home).glob("*") if each.is_dir())
    raise ModelNotFound(
        f"there is no adapter {str(name)!r}: no folder of that path, and in {adapters_folder(home)} there "
        f"{'is ' + ', '.join(known) if known else 'are none'}"
    )


def _facts(path: Path) -> AdapterFacts:
    try:
        return AdapterFacts(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise WeightsCorrupt(f"{path} is damaged: {error}") from error


def model_of(name: str | Path, *, home: Path | None = None) -> str:
    """The name of the model that an adapter was trained for.

    Raises:
        ModelNotFound: there is no such adapter.
        WeightsCorrupt: its files are damaged, or do not say it.
    """
    folder = _place(name, home)
    if not (folder / _FACTS).is_file():
        raise WeightsCorrupt(f"{folder} does not say which model it is for: name that, with adapter={str(name)!r}")
    return _facts(folder / _FACTS).model


def learnt_scoring(adapter: Path | None) -> dict[str, Any]:
    """How options are scored with an adapter that agentform trained, where `agentform tune` found nothing else.

    It has learnt how often each option is right, so nothing is taken out of what it says.
    """
    return {"calibration": 0.0} if adapter is not None and (adapter / _FACTS).is_file() else {}


def adapter_digest(digest: str, adapter: Path) -> str:
    """What identifies a model with an adapter: nothing that was cached or measured for either alone fits it."""
    found = hashlib.sha256(digest.encode())
    for file in (_CONFIG, _WEIGHTS):
        path = adapter / file
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def adapter_scale(config: Mapping[str, Any], *, where: Path) -> float:
    """What the product of an adapter's two matrices is multiplied with.

    Raises:
        WeightsCorrupt: it is of a kind that is more than such a product.
    """
    unknown = {
        "peft_type": config.get("peft_type") not in (None, "LORA"),
        "use_dora": bool(config.get("use_dora")),
        "bias": config.get("bias", "none") != "none",
        **{
            key: bool(config.get(key))
            for key in ("modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication")
        },
    }
    if found := sorted(key for key, is_set in unknown.items() if is_set):
        raise WeightsCorrupt(f"{where} is an adapter with {', '.join(found)}; plain LoRA is what can be served")
    try:
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
        return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise WeightsCorrupt(f"{where} does not say its rank and alpha: {error}") from error
