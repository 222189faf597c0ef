"""Settings compared on the same recorded scores: the default, the best of all, and writing; with paired intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any, TypeAlias

from agentform.forms.scoring import Scoring
from benchmarks.common.bootstrap import difference
from benchmarks.forms.recording import Recorded

__all__ = ["SEED", "STRENGTHS", "compared"]

SEED = 20261201
STRENGTHS = (0.0, 0.5, 0.7, 0.9, 1.0)
_Forms: TypeAlias = Sequence[Sequence[Recorded]]
"""`[item][field]`."""
_NAMES = {False: "not listed", True: "listed"}


def compared(recorded: Mapping[bool, _Forms]) -> dict[str, Any]:
    """Figures of one set; `recorded` by whether the fields are listed.

    The best setting is found on the very items that it is measured on, so that it looks better than it is.
    """
    settings = [_setting(listed, strength) for listed, strength in product(recorded, STRENGTHS)]
    right = {setting: _right(recorded[setting.list_fields], setting) for setting in settings}
    default, best = Scoring(), max(settings, key=lambda setting: _mean(right[setting]))
    taken = {listed: [[r.written in r.gold for r in form] for form in forms] for listed, forms in recorded.items()}
    return {
        "items": len(recorded[False]),
        "leaves": sum(map(len, recorded[False])),
        "strengths": list(STRENGTHS),
        "accuracy": {
            _NAMES[listed]: [_mean(right[_setting(listed, strength)]) for strength in STRENGTHS] for listed in recorded
        },
        "written": {_NAMES[listed]: _mean(hits) for listed, hits in taken.items()},
        "agreement_of_raw_scores_with_writing": {
            _NAMES[listed]: fmean(r.agrees() for form in forms for r in form) for listed, forms in recorded.items()
        },
        "best": {"listed": best.list_fields, "calibration": best.calibration},
        "best_minus_default": difference(right[best], right[default], seed=SEED).as_dict(),
        "listed_minus_default": difference(right[_setting(True, 0.9)], right[default], seed=SEED).as_dict(),
        "default_minus_written": {
            _NAMES[listed]: difference(right[default], hits, seed=SEED).as_dict() for listed, hits in taken.items()
        },
    }


def _setting(listed: bool, strength: float) -> Scoring:
    nothing = min(strength, Scoring().calibration_with_nothing)
    return Scoring(list_fields=listed, calibration=strength, calibration_with_nothing=nothing)


def _right(forms: _Forms, setting: Scoring) -> list[list[bool]]:
    return [[recorded.is_right(setting) for recorded in form] for form in forms]


def _mean(right: Sequence[Sequence[bool]]) -> float:
    return fmean(hit for form in right for hit in form)
