"""Snapshots seen from the engine: its processes are told how to keep them, and say what became of them."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from agentform.errors import EngineError
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.sglang.plugin.settings import SnapshotSettings, policy_text
from agentform.runtime.sglang.plugin.statistics import SnapshotPoolStatistics, read_snapshot_statistics
from agentform.runtime.snapshots.policy import SnapshotPolicy

__all__ = ["EngineSnapshots", "Snapshots"]

Snapshots: TypeAlias = str | SnapshotPolicy | SnapshotSettings
"""A named policy, a policy, or all settings."""


class EngineSnapshots:
    """How one engine's snapshots are kept; without `snapshots` SGLang keeps them its own way."""

    def __init__(self, snapshots: Snapshots | None) -> None:
        """Read what `snapshots` asks for.

        Raises:
            InvalidRequest: for a policy that is none.
        """
        self._settings: SnapshotSettings | None = None
        if snapshots is None:
            return
        made = (
            snapshots if isinstance(snapshots, SnapshotSettings) else SnapshotSettings(snapshots=policy_text(snapshots))
        )
        if made.statistics_path is None:
            folder = tempfile.mkdtemp(prefix="agentform-sglang-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            made = replace(made, statistics_path=Path(folder) / "snapshots.json")
        self._settings = made

    @property
    def environment(self) -> Mapping[str, str]:
        """What SGLang's processes are started with."""
        return {} if self._settings is None else self._settings.environment()

    def check_started(self) -> None:
        """Look for the pool, once SGLang serves.

        Raises:
            EngineError: SGLang serves without the pool that was asked for.
        """
        if self._settings is not None and self.pool() is None:
            raise EngineError(
                "SGLang serves without the snapshot pool that was asked for: the model has no recurrent layers, or the "
                "plugin did not load, which the logger agentform.sglang tells (is agentform installed, so that its "
                "entry point is found?)"
            )

    def pool(self) -> SnapshotPoolStatistics | None:
        """What the pool did; `None` without one."""
        if self._settings is None or self._settings.statistics_path is None:
            return None
        return read_snapshot_statistics(self._settings.statistics_path)

    def added_to(self, counts: CacheStatistics) -> CacheStatistics:
        """The engine's statistics, with what the pool knows."""
        pool = self.pool()
        if pool is None:
            return counts
        return replace(
            counts,
            codec=pool.codec,
            snapshot_bytes=pool.slot_bytes,
            resident_snapshots=pool.resident,
            restored_tokens=pool.restored_tokens,
            evicted_snapshots=pool.evicted,
            declined_snapshots=pool.declined,
        )
