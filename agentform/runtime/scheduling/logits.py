"""Logits as requests see them: rows in whatever array library the engine computes in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from agentform.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["LEAST_TEMPERATURE", "LogProbs", "Row", "Rows", "Sampler", "check_highest"]

LEAST_TEMPERATURE = 1e-37
"""Below it a float32 has no room; the highest logit takes it all long before."""

Row: TypeAlias = Any
"""`[vocabulary]`: a tensor or an array that can be sliced."""

Rows: TypeAlias = Any
"""`[rows, vocabulary]`: iterating, indexing and `len` give rows."""

LogProbs: TypeAlias = Callable[[Row, Sequence[int]], list[float]]
"""Natural-log probabilities of some ids under the full softmax of a row, in float32 at least."""


class Sampler(Protocol):
    """One request's choice of tokens; the same seed gives the same tokens for the same logits."""

    def pick(self, logits: Row, allowed: npt.NDArray[np.bool_] | None = None) -> int:
        """The next token's id; `allowed` is of the shape of `logits` or shorter."""
        ...


def check_highest(logit: float) -> None:
    """Raise EngineError if the highest logit of a row is no number: then none is, and any token would be a guess."""
    if not math.isfinite(logit):
        raise EngineError(
            f"the model computed {logit} instead of logits: its weights are damaged, or its activations overflow the "
            "dtype; try dtype float32"
        )
