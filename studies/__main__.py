"""`python -m studies NAME [--part PART] [--quick]`: runs one study and writes results/NAME.json."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.command import main

__all__ = ["STUDIES"]

STUDIES = {
    "forms": "studies.forms",
    "kv_bits": "studies.kv_bits",
    "recall": "studies.recall",
    "snapshots": "studies.snapshots",
}
"""By name, the module that runs it."""

if __name__ == "__main__":
    main("python -m studies", STUDIES, results=Path(__file__).with_name("results"))
