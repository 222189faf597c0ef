"""How SGLang's snapshots are kept. Its processes read it from the environment, which they inherit.

::

    AGENTFORM_SGLANG_SNAPSHOTS             the policy, and the switch: unset or empty is off
        balanced                               one of the named policies
        8000000                                bytes per snapshot
        keep=int8,drop_below_tokens=64         fields of SnapshotPolicy
    AGENTFORM_SGLANG_SNAPSHOT_POOL         4000000000 (bytes of all snapshots together) or "500 slots"
    AGENTFORM_SGLANG_SNAPSHOT_STATISTICS   a file for statistics, see `snapshot_statistics`

Without a pool size the pool has the bytes that SGLang's own int8 pool would have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from agentform.errors import InvalidRequest
from agentform.runtime.snapshots.policy import SnapshotPolicy, named_policy

__all__ = ["POLICY", "POOL", "STATISTICS", "SnapshotSettings", "policy_of", "policy_text"]

POLICY = "AGENTFORM_SGLANG_SNAPSHOTS"
POOL = "AGENTFORM_SGLANG_SNAPSHOT_POOL"
STATISTICS = "AGENTFORM_SGLANG_SNAPSHOT_STATISTICS"
_POOL_SIZE = re.compile(r"(\d+)(\s*slots?)?")


@dataclass(frozen=True, kw_only=True)
class SnapshotSettings:
    """What is asked of the pool.

    Raises:
        InvalidRequest: for a policy that is none, and for a pool without room for one snapshot.
    """

    snapshots: str
    """The policy as text, see the module; `policy_text` writes it."""
    pool_bytes: int | None = None
    num_slots: int | None = None
    """Instead of `pool_bytes`: how many snapshots."""
    statistics_path: Path | None = None

    def __post_init__(self) -> None:
        policy_of(self.snapshots)
        if self.pool_bytes is not None and self.num_slots is not None:
            raise InvalidRequest("the size of a snapshot pool is stated in bytes or in slots, not in both")
        if min(self.pool_bytes or 1, self.num_slots or 1) < 1 or 0 in (self.pool_bytes, self.num_slots):
            raise InvalidRequest("a snapshot pool has at least one slot")

    @property
    def policy(self) -> SnapshotPolicy:
        """What `snapshots` says."""
        return policy_of(self.snapshots)

    def environment(self) -> dict[str, str]:
        """What to set for SGLang's processes."""
        made = {POLICY: self.snapshots}
        if self.pool_bytes is not None:
            made[POOL] = str(self.pool_bytes)
        if self.num_slots is not None:
            made[POOL] = f"{self.num_slots} slots"
        if self.statistics_path is not None:
            made[STATISTICS] = str(self.statistics_path)
        return made

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> SnapshotSettings | None:
        """`None` where the switch is off.

        Raises:
            InvalidRequest: a variable cannot be read; it is named.
        """
        snapshots = environment.get(POLICY, "").strip()
        if not snapshots:
            return None
        try:
            policy_of(snapshots)
        except InvalidRequest as error:
            raise InvalidRequest(f"{POLICY}={snapshots}: {error}") from error
        pool = environment.get(POOL, "").strip()
        size = _POOL_SIZE.fullmatch(pool)
        if pool and (size is None or int(size[1]) == 0):
            raise InvalidRequest(f"{POOL}={pool}: a number of bytes, or of slots such as '500 slots', is wanted")
        number = int(size[1]) if size else None
        in_slots = size is not None and size[2] is not None
        path = environment.get(STATISTICS, "").strip()
        return cls(
            snapshots=snapshots,
            pool_bytes=None if in_slots else number,
            num_slots=number if in_slots else None,
            statistics_path=Path(path) if path else None,
        )


def policy_of(text: str) -> SnapshotPolicy:
    """Read a policy.

    Raises:
        InvalidRequest: it is none; the message says what can be written.
    """
    if text.isdecimal():
        return SnapshotPolicy(budget_bytes=int(text))
    if "=" not in text:
        return named_policy(text)
    given: dict[str, str | float | int] = {}
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        given[name] = _field(name, value)
    return SnapshotPolicy(**given)  # pyright: ignore[reportArgumentType]  checked by _field


def policy_text(policy: str | SnapshotPolicy) -> str:
    """What `policy_of` reads as the same policy.

    Raises:
        InvalidRequest: for a text that is none.
    """
    if isinstance(policy, str):
        policy_of(policy)
        return policy
    if policy.budget_bytes is not None:
        return str(policy.budget_bytes)
    return ",".join(f"{each.name}={getattr(policy, each.name)}" for each in fields(policy) if each.name in _writable())


def _field(name: str, value: str) -> str | float | int:
    if name not in _writable():
        raise InvalidRequest(f"{name!r} is no field of a snapshot policy here; there are {', '.join(_writable())}")
    if name == "keep":
        return value
    try:
        return float(value)
    except ValueError as error:
        raise InvalidRequest(f"{name} is a number of tokens, not {value!r}") from error


def _writable() -> list[str]:
    """Fields of a policy; bytes are written as a bare number, and nothing is replayed in SGLang."""
    return [each.name for each in fields(SnapshotPolicy) if each.name not in ("budget_bytes", "replay_tokens")]
