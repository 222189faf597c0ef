"""What a model's weights are, wherever they lie: so that an adapter is not laid over others."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentform.errors import WeightsCorrupt

__all__ = ["weights_identity"]

_BLOCK = 1 << 14
_NUM_BLOCKS = 64


def weights_identity(model: Path) -> str:
    """Hex digest of a GGUF file's weights, or of the safetensors of a folder.

    Of each file the size and blocks of 16 KiB from all over it are read, so that a file of any size takes milliseconds;
    names and times do not count.

    Raises:
        WeightsCorrupt: there are no weights, or they cannot be read.
    """
    # What agentform keeps in 4 bits beside a folder's weights is made from the same file.
    kept = sorted(each for each in model.glob("*.safetensors") if each.name != "four_bit.safetensors")
    files = kept if model.is_dir() else [model]
    if not files:
        raise WeightsCorrupt(f"{model} holds no safetensors")
    try:
        parts = sorted(_sampled(file) for file in files)
    except OSError as error:
        raise WeightsCorrupt(f"{model} cannot be read: {error}") from error
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _sampled(path: Path) -> bytes:
    size = path.stat().st_size
    found = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for number in range(_NUM_BLOCKS):
            file.seek(max(0, size - _BLOCK) * number // (_NUM_BLOCKS - 1))
            found.update(file.read(_BLOCK))
    return found.digest()
