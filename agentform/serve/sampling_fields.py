"""How what is written is drawn, by the names that every API and server has for it."""

from __future__ import annotations

import random

from pydantic import Field

from agentform.runtime.engine import Sampling
from agentform.serve.parsing import OpenFields

__all__ = ["SamplingFields"]


class SamplingFields(OpenFields):
    """The fields that say how tokens are drawn; without any the most probable one is taken."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    top_k: int | None = Field(default=None, ge=-1, le=1_000_000)
    """-1 and 0: any token."""
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0, le=10)
    repeat_penalty: float | None = Field(default=None, gt=0, le=10)
    """Of llama.cpp: `repetition_penalty`."""
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)

    def sampling(self) -> Sampling:
        """The same for an engine, with a seed of its own where none is asked for."""
        return Sampling(
            temperature=self.temperature or 0.0,
            top_p=self.top_p or 1.0,
            seed=random.getrandbits(63) if self.seed is None else self.seed % 2**63,
            top_k=max(0, self.top_k or 0),
            min_p=self.min_p or 0.0,
            repetition_penalty=self.repetition_penalty or self.repeat_penalty or 1.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            presence_penalty=self.presence_penalty or 0.0,
        )
