"""Bytes against quality: every way at every number of bytes, on the same contexts and questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.bootstrap import difference
from studies.recall.tasks import Batch, draw
from studies.snapshots.lab import Lab, Session
from studies.snapshots.ways import Way, ways

__all__ = ["GRID", "TAIL", "Cell", "contexts", "logit_error", "measure"]

TAIL = 64
"""Noise behind the last pair; and so much of it comes after the snapshot was taken."""
_LIVE = "live"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Contexts of one length and number of keys."""

    tokens: int
    pairs: int
    contexts: int


GRID = (
    Cell(tokens=1024, pairs=1, contexts=32),
    Cell(tokens=1024, pairs=4, contexts=16),
    Cell(tokens=1024, pairs=16, contexts=32),
    Cell(tokens=4096, pairs=1, contexts=32),
    Cell(tokens=4096, pairs=4, contexts=16),
    Cell(tokens=4096, pairs=16, contexts=32),
    Cell(tokens=4096, pairs=48, contexts=12),
    Cell(tokens=16384, pairs=1, contexts=16),
    Cell(tokens=16384, pairs=4, contexts=12),
    Cell(tokens=16384, pairs=16, contexts=40),
)


def contexts(cell: Cell, *, seed: int) -> Iterator[Batch]:
    """One at a time, each with all its keys asked; the last `TAIL` tokens are noise."""
    rng = np.random.default_rng([seed, cell.tokens, cell.pairs])
    for _ in range(cell.contexts):
        yield draw(rng, batch=1, tokens=cell.tokens, pairs=cell.pairs, questions=cell.pairs, tail=TAIL)


def logit_error(logits: Tensor, live: Tensor) -> Tensor:
    """Root mean square over the vocabulary of the difference of log-probabilities, `[rows]`."""
    return (logits.log_softmax(dim=-1) - live.log_softmax(dim=-1)).square().mean(dim=-1).sqrt()


def measure(lab: Lab, cells: Sequence[Cell], *, seed: int) -> list[dict[str, Any]]:
    """One row per cell and way."""
    chosen = ways(lab)
    return [row for cell in cells for row in _cell(lab, cell, chosen, seed)]


def _cell(lab: Lab, cell: Cell, chosen: Sequence[Way], seed: int) -> list[dict[str, Any]]:
    right: dict[str, list[list[bool]]] = defaultdict(list)
    errors: dict[str, list[float]] = defaultdict(list)
    text: dict[str, list[float]] = defaultdict(list)
    for batch in contexts(cell, seed=seed):
        ids, keys = batch.context[0], batch.asked[0].tolist()
        wanted = torch.from_numpy(batch.answers[0])
        lab.read(ids[:-TAIL])
        live = _probe(lab.session(), ids, keys)
        right[_LIVE].append((live[0].argmax(dim=-1) == wanted).tolist())
        known: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}  # ways that come to the same
        for way in chosen:
            same = (way.codec.name, way.refresh_tokens)
            if same not in known:
                known[same] = _probe(lab.session(way.codec, refresh_tokens=way.refresh_tokens), ids, keys)
            asked, behind = known[same]
            right[way.key].append((asked.argmax(dim=-1) == wanted).tolist())
            errors[way.key].append(float(logit_error(asked, live[0]).mean()))
            text[way.key].append(float(logit_error(behind, live[1]).mean()))
    rows: list[dict[str, Any]] = [
        {**_about(lab, way, cell), **_against_live(right, errors, text, way.key, seed)} for way in chosen
    ]
    for row in rows:
        if not row["way"].startswith("ours"):
            ours = next(way.key for way in chosen if way.name == "ours" and way.num_bytes == row["bytes"])
            row["ours_minus_this"] = difference(right[ours], right[row.pop("key")], seed=seed).as_dict()
        else:
            row.pop("key")
    return rows


def _probe(session: Session, ids: Any, keys: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Logits of the answers right after the restore, and of the noise that follows."""
    asked = session.ask(keys)
    return asked, session.extend(ids[-TAIL:], rows=range(TAIL))


def _about(lab: Lab, way: Way, cell: Cell) -> dict[str, Any]:
    states = lab.exact_bytes - lab.conv_bytes
    return {
        "key": way.key,
        "way": way.name,
        "tokens": cell.tokens,
        "pairs": cell.pairs,
        "bytes": way.num_bytes,
        "state_ratio": states / max(1, way.num_bytes - lab.conv_bytes),
        "kept": way.kept,
        "seed": way.seed,
        "tiers": {precision.name: num for precision, num in sorted(way.codec.plan.count().items())},
        "replay_tokens": way.codec.plan.replay_tokens,
    }


def _against_live(
    right: dict[str, list[list[bool]]],
    errors: dict[str, list[float]],
    text: dict[str, list[float]],
    key: str,
    seed: int,
) -> dict[str, Any]:
    flat = [leaf for row in right[key] for leaf in row]
    whole = [leaf for row in right[_LIVE] for leaf in row]
    return {
        "answers": len(flat),
        "recall": sum(flat) / len(flat),
        "live_recall": sum(whole) / len(whole),
        "minus_live": difference(right[key], right[_LIVE], seed=seed).as_dict(),
        "logit_error": float(np.mean(errors[key])),
        "text_error": float(np.mean(text[key])),
    }
