"""Hit rate over time: a bounded record of what a cache did between one look and the next."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio

from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics, ConversationStatistics

__all__ = ["HitRateHistory", "HitRateSample", "Share"]


@dataclass(frozen=True, kw_only=True)
class Share:
    """Prompt tokens looked up and the part of them that was reused, within one sample."""

    requests: int = 0
    lookup_tokens: int = 0
    hit_tokens: int = 0
    misses: Mapping[str, int] = field(default_factory=dict[str, int])
    """Requests that were not fully cached, by reason."""

    @property
    def hit_rate(self) -> float | None:
        """Reused share of the tokens looked up; `None` where none were."""
        return self.hit_tokens / self.lookup_tokens if self.lookup_tokens else None

    def __add__(self, other: Share) -> Share:
        return Share(
            requests=self.requests + other.requests,
            lookup_tokens=self.lookup_tokens + other.lookup_tokens,
            hit_tokens=self.hit_tokens + other.hit_tokens,
            misses=dict(Counter(self.misses) + Counter(other.misses)),
        )


@dataclass(frozen=True, kw_only=True)
class HitRateSample:
    """What happened since the sample before; in the first one, since the engine started."""

    at_s: float
    """Unix time."""
    total: Share
    conversations: Mapping[str, Share] = field(default_factory=dict[str, Share])
    """Those that asked something in this time."""


class HitRateHistory:
    """The last `capacity` samples of a cache's statistics.

    Examples:
        >>> history = HitRateHistory()
        >>> history.add(CacheStatistics(requests=1, lookup_tokens=100), at_s=0).total.hit_rate
        0.0
        >>> history.add(CacheStatistics(requests=2, lookup_tokens=220, hit_tokens=90), at_s=1).total.hit_rate
        0.75
        >>> round(history.total.hit_rate, 3)
        0.409
    """

    def __init__(self, *, capacity: int = 720) -> None:
        if capacity < 1:
            raise InvalidInput(f"a history holds at least one sample; got a capacity of {capacity}")
        self._samples: deque[HitRateSample] = deque(maxlen=capacity)
        self._total = Share()
        self._conversations: Mapping[str, Share] = {}

    @property
    def samples(self) -> tuple[HitRateSample, ...]:
        """Oldest first."""
        return tuple(self._samples)

    @property
    def total(self) -> Share:
        """All samples that are held, together."""
        return sum((sample.total for sample in self._samples), Share())

    def add(self, statistics: CacheStatistics, *, at_s: float | None = None) -> HitRateSample:
        """Note what was done since the last look; counters that went back are those of an engine begun anew."""
        total = _share(statistics)
        conversations = {name: _share(each) for name, each in statistics.conversations.items()}
        moved = {name: _since(self._conversations.get(name, Share()), now) for name, now in conversations.items()}
        sample = HitRateSample(
            at_s=time.time() if at_s is None else at_s,
            total=_since(self._total, total),
            conversations={name: share for name, share in moved.items() if share.requests},
        )
        self._total, self._conversations = total, conversations
        self._samples.append(sample)
        return sample

    async def watch(self, statistics: Callable[[], CacheStatistics], *, every_s: float = 1.0) -> None:
        """Add a sample every `every_s` seconds until cancelled; `statistics` is `engine.statistics`."""
        while True:
            self.add(statistics())
            await anyio.sleep(every_s)

    def save(self, file: Path) -> None:
        """Write the samples, one JSON object a line."""
        lines = [json.dumps(asdict(sample), ensure_ascii=False) for sample in self._samples]
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> HitRateHistory:
        """The samples of a file that `save` wrote.

        Raises:
            InvalidInput: the file cannot be read or is no such file; it names the line.
        """
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read {file}: {error}") from error
        history = cls(capacity=max(720, len(lines)))
        for number, line in enumerate(lines, 1):
            try:
                history._samples.append(_sample(json.loads(line)))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise InvalidInput(f"{file}, line {number} is no sample of a hit rate: {error}") from error
        return history


def _share(statistics: CacheStatistics | ConversationStatistics) -> Share:
    return Share(
        requests=statistics.requests,
        lookup_tokens=statistics.lookup_tokens,
        hit_tokens=statistics.hit_tokens,
        misses=dict(statistics.misses),
    )


def _since(before: Share, now: Share) -> Share:
    if now.requests < before.requests or now.lookup_tokens < before.lookup_tokens:
        return now
    return Share(
        requests=now.requests - before.requests,
        lookup_tokens=now.lookup_tokens - before.lookup_tokens,
        hit_tokens=max(0, now.hit_tokens - before.hit_tokens),
        misses=dict(Counter(now.misses) - Counter(before.misses)),
    )


def _sample(said: Any) -> HitRateSample:
    conversations = {str(name): Share(**share) for name, share in said["conversations"].items()}
    return HitRateSample(at_s=float(said["at_s"]), total=Share(**said["total"]), conversations=conversations)
