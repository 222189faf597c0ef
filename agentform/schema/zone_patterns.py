"""Regular expressions of moments and times of day with and without an offset, between bounds with and without one.

A bound and a value are compared as instants where both have an offset, and by what the clock shows where one has none.
So beside a bound with an offset there are three ways to write a moment::

    no offset          the bound as its clock shows it
    UTC, the bound's   the bound in that offset
    any other          a day further in, where every offset is within the bound
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from typing import Literal, TypeAlias

from agentform.schema.digit_patterns import NOTHING, any_of
from agentform.schema.time_patterns import datetime_pattern, time_pattern

__all__ = ["MomentBounds", "Zones", "moment_pattern", "time_of_day_pattern"]

Zones: TypeAlias = Literal["naive", "aware"] | int | None
"""Which offsets a value may have: none, one that is needed, this one in seconds, or any and none."""

_ANY_ZONE = "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class MomentBounds:
    """Between which moments; with `above` the lower is none of them, with `below` the upper."""

    low: datetime | None = None
    high: datetime | None = None
    above: bool = False
    below: bool = False

    @property
    def offsets(self) -> set[timedelta]:
        """Those of the bounds."""
        return {offset for end in (self.low, self.high) if end is not None and (offset := end.utcoffset()) is not None}

    def shown(self, zone: tzinfo | None, further: timedelta = timedelta()) -> str:
        """The pattern of what a clock in that zone shows; `None` for a clock without one. `further`: so far inside."""
        low, high = _shown(self.low, zone, further), _shown(self.high, zone, -further)
        if low is None and self.low is not None and self.low.year > 1:
            return NOTHING
        return datetime_pattern(low, high, above=self.above, below=self.below)


def moment_pattern(bounds: MomentBounds, zones: Zones) -> str:
    """Moments as pydantic reads them."""
    arms: list[str] = []
    if zones in ("naive", None):
        arms.append(bounds.shown(None))
    if isinstance(zones, int):
        arms.append(_in_zone(bounds, timedelta(seconds=zones)))
    elif zones != "naive" and not bounds.offsets:
        arms.append(f"{bounds.shown(None)}{_ANY_ZONE}")
    elif zones != "naive":
        arms += [_in_zone(bounds, offset) for offset in sorted({timedelta(), *bounds.offsets})]
        arms.append(f"{bounds.shown(UTC, _DAY)}{_ANY_ZONE}")
    return any_of(arm for arm in arms if NOTHING not in arm)


def time_of_day_pattern(low: time, high: time, zones: Zones, *, above: bool = False, below: bool = False) -> str:
    """Times of day as pydantic reads them; beside a bound with an offset they have that one, or none."""
    bound = time_pattern(low.replace(tzinfo=None), high.replace(tzinfo=None), above=above, below=below)
    offsets = {offset for end in (low, high) if (offset := end.utcoffset()) is not None}
    if zones == "naive" or bound == NOTHING or len(offsets) > 1:
        return bound
    zone = _zone_text(*offsets) if offsets else _ANY_ZONE
    return f"{bound}{zone}" + ("?" if zones is None else "")


def _in_zone(bounds: MomentBounds, offset: timedelta) -> str:
    return f"{bounds.shown(timezone(offset))}{_zone_text(offset)}"


def _shown(end: datetime | None, zone: tzinfo | None, further: timedelta) -> datetime | None:
    """What a clock shows at the bound; `None` where no year is left to show."""
    if end is None:
        return None
    try:
        there = end if zone is None or end.tzinfo is None else end.astimezone(zone) + further
    except OverflowError:
        return None
    return there.replace(tzinfo=None)


def _zone_text(offset: timedelta) -> str:
    minutes = abs(offset) // timedelta(minutes=1)
    if not minutes:
        return r"(Z|[+-]00:00)"
    return rf"\{'+' if offset > timedelta() else '-'}{minutes // 60:02}:{minutes % 60:02}"
