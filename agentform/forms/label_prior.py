"""The label prior: what a model answers when there is nothing to answer, and how it is taken out.

A small model leans to one option whatever the text says. The mean log score of the same question over a few
content-free inputs measures that lean without labels or data; subtracting it is contextual calibration
(Zhao et al., "Calibrate Before Use", 2021, arXiv 2102.09690), here in log space and averaged over several inputs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentform.runtime.engine import Engine
from agentform.runtime.prior_store import PriorStore

__all__ = ["CONTENT_FREE", "PriorStore", "calibrated", "priors_of", "timeless"]

CONTENT_FREE = (
    "N/A",
    "",
    "[MASK]",
    "...",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit.",
    "The quick brown fox jumps over the lazy dog.",
)
"""Inputs that carry no content: the model's answers to them are its label prior."""


def calibrated(
    log_scores: Sequence[float], prior: Sequence[float], strength: float, nothing: int | None = None
) -> tuple[float, ...]:
    """Log scores with `strength` times the mean log prior taken out; 0 leaves them raw.

    `nothing` is the option that says "nothing", if there is one. It is the right answer to a content-free input, so
    what the prior gives it is no lean; it is corrected by as much as the others are on average.
    """
    if nothing is not None:
        others = [lean for at, lean in enumerate(prior) if at != nothing]
        prior = [sum(others) / len(others) if at == nothing else lean for at, lean in enumerate(prior)]
    return tuple(score - strength * lean for score, lean in zip(log_scores, prior, strict=True))


def priors_of(engine: Engine) -> PriorStore:
    """The store that belongs to the engine; a new one for an engine that has none."""
    store = getattr(engine, "priors", None)
    return store if isinstance(store, PriorStore) else PriorStore()


def timeless(prompt: str) -> str:
    """A prompt without what changes from day to day or run to run: numbers, names of days and months, identifiers.

    None of these makes a model lean to an option; a prompt that differs in them alone has the same label prior.
    """
    return _VARYING.sub("0", prompt)


_DAYS = "mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?"
_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?"
)
_VARYING = re.compile(
    rf"\b[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\b|\b(?:{_DAYS}|{_MONTHS}|am|pm|utc)\b|[0-9]+",
    re.IGNORECASE,
)
