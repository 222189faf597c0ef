"""How processes that run the tests together share them."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

__all__ = ["EnginesStayTogether"]

_ONE_PROCESS = "tests/seam/"


class EnginesStayTogether(LoadFileScheduling):
    """Tests of one file stay together, and so do the files that share engines: what they share is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return _ONE_PROCESS if nodeid.startswith(_ONE_PROCESS) else super()._split_scope(nodeid)
