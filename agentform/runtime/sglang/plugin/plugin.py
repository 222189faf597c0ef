"""Entry point of the group `sglang.srt.plugins`: SGLang calls `register` at the start of each of its processes.

Without `AGENTFORM_SGLANG_SNAPSHOTS` in the environment it returns at once and imports nothing.
"""

from __future__ import annotations

import os

__all__ = ["register"]


def register() -> None:
    """Put a snapshot pool that knows horizons in the place of SGLang's int8 pool, if the environment asks for it.

    SGLang logs what a plugin raises and goes on without it.

    Raises:
        InvalidRequest: for settings that cannot be read.
        EngineError: for a version of SGLang that is not supported.
    """
    from agentform.runtime.sglang.plugin.settings import SnapshotSettings

    settings = SnapshotSettings.from_environment(os.environ)
    if settings is None:
        return
    from agentform.runtime.sglang.plugin.hooks import SnapshotHooks
    from agentform.runtime.sglang.wire.versions import check_version

    check_version()
    SnapshotHooks(settings).register()
