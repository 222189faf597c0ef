"""What identifies a model: its folder and the type its weights are computed in."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

__all__ = ["digest_of"]

_WEIGHTS = ("*.safetensors", "*.gguf", "*.bin", "*.json", "*.jinja", "*.model")


def digest_of(folder: Path, computed: object) -> str:
    """Hex digest of the folder's manifest, or of file names, sizes and times, without reading weights.

    `computed` says what the weights are computed in: torch's dtype or its name such as "torch.bfloat16", with whatever
    else changes results.
    """
    manifest = folder / "manifest.json"
    if manifest.is_file():
        facts = manifest.read_bytes()
    else:
        files = sorted({path for pattern in _WEIGHTS for path in folder.glob(pattern)})
        stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        facts = json.dumps(stats).encode()
    return hashlib.sha256(facts + str(computed).encode()).hexdigest()
