"""Dropping, quantising and forking told apart: several questions to one context, all at once or one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentform.runtime.snapshots.plan import Precision
from agentform.runtime.torch.snapshots.codec import ExactCodec, SnapshotCodec
from agentform.runtime.torch.snapshots.decay_codec import DecayCodec
from benchmarks.common.bootstrap import difference
from studies.snapshots.lab import Lab
from studies.snapshots.quality import TAIL, Cell, contexts, logit_error
from studies.snapshots.ways import REFRESH_TOKENS, ranked

__all__ = ["FIELDS", "LATER", "SHARE", "Start", "measure", "starts"]

FIELDS = (1, 3, 6, 9)
"""A form's fields are the first of the nine that are asked: longer forms hold the shorter ones."""
LATER = (0, 16, 64)
"""Tokens between the restore and the form."""
SHARE = 0.38
"""Of the heads that are kept where some are dropped."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """What the conversation goes on from."""

    name: str
    codec: SnapshotCodec | None
    """`None`: the live state."""
    refresh_tokens: int = 0


def starts(lab: Lab) -> list[Start]:
    """The live state, and what is left of it."""
    drop = DecayCodec(ranked(lab, SHARE, Precision.EXACT), lab.horizons)
    int8, int4 = (
        DecayCodec(ranked(lab, 1.0, precision), lab.horizons) for precision in (Precision.INT8, Precision.INT4)
    )
    both = DecayCodec(ranked(lab, SHARE, Precision.INT8), lab.horizons)
    return [
        Start(name="live", codec=None),
        Start(name="exact", codec=ExactCodec()),
        Start(name="drop", codec=drop),
        Start(name="drop, refresh", codec=drop, refresh_tokens=REFRESH_TOKENS),
        Start(name="int8", codec=int8),
        Start(name="int4", codec=int4),
        Start(name="both", codec=both),
        Start(name="both, refresh", codec=both, refresh_tokens=REFRESH_TOKENS),
    ]


@dataclass(frozen=True, kw_only=True)
class _Answers:
    """Per context whether each field is right, and how far its logits are from those of the live state."""

    right: list[list[bool]]
    errors: list[Tensor]

    def first(self, fields: int) -> list[list[bool]]:
        """Of the form of so many fields."""
        return [row[:fields] for row in self.right]


def measure(lab: Lab, cell: Cell, *, seed: int) -> list[dict[str, Any]]:
    """One row per start, distance and number of fields."""
    found: dict[tuple[str, int, str], _Answers] = defaultdict(lambda: _Answers(right=[], errors=[]))
    chosen = starts(lab)
    for batch in contexts(cell, seed=seed):
        ids, keys = batch.context[0], batch.asked[0, : max(FIELDS)].tolist()
        wanted = torch.from_numpy(batch.answers[0, : max(FIELDS)])
        lab.read(ids[:-TAIL])
        for later in LATER:
            exact: dict[str, Tensor] = {}
            for start in chosen:
                for way, logits in _both_ways(lab, start, ids, keys, later):
                    answers = found[start.name, later, way]
                    answers.right.append((logits.argmax(dim=-1) == wanted).tolist())
                    answers.errors.append(logit_error(logits, exact.setdefault(way, logits)))
    return [row for start in chosen for later in LATER for row in _rows(found, start.name, later, seed)]


def _both_ways(lab: Lab, start: Start, ids: Any, keys: Sequence[int], later: int) -> Iterator[tuple[str, Tensor]]:
    """At once, which leaves the state as it is, and then one after the other."""
    session = lab.session(start.codec, refresh_tokens=start.refresh_tokens)
    if later:
        first = len(ids) - TAIL
        session.extend(ids[first : first + later])
    yield "parallel", session.ask(keys)
    yield "in turn", session.ask_in_turn(keys)


def _rows(found: dict[tuple[str, int, str], _Answers], start: str, later: int, seed: int) -> Iterator[dict[str, Any]]:
    at_once, in_turn = found[start, later, "parallel"], found[start, later, "in turn"]
    live = found["live", later, "parallel"]
    for fields in FIELDS:
        rows = {"parallel": at_once.first(fields), "in_turn": in_turn.first(fields)}
        yield {
            "start": start,
            "later": later,
            "fields": fields,
            **{name: _share(right) for name, right in rows.items()},
            "answers": fields * len(at_once.right),
            "forking": difference(rows["parallel"], rows["in_turn"], seed=seed).as_dict(),
            "state": difference(rows["parallel"], live.first(fields), seed=seed).as_dict(),
            "parallel_error": _mean(at_once.errors, fields),
            "in_turn_error": _mean(in_turn.errors, fields),
        }


def _share(right: Sequence[Sequence[bool]]) -> float:
    return sum(map(sum, right)) / sum(map(len, right))


def _mean(errors: Sequence[Tensor], fields: int) -> float:
    return float(torch.stack([each[:fields].mean() for each in errors]).mean())
