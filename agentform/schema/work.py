"""How much compiling one schema may cost: a budget of steps, and an end when nobody waits any more."""

from __future__ import annotations

from agentform._util.threads import is_given_up
from agentform.errors import UnsupportedSchema
from agentform.schema.form import Path, pointer

__all__ = ["MAX_STEPS", "Work"]

MAX_STEPS = 400_000
"""Keywords looked at, over all passes; a usual machine does that in a second or two."""
_STEPS_BETWEEN_LOOKS = 1_000


class Work:
    """Counts the steps of one compilation. A short document can ask for exponentially many."""

    def __init__(self, most: int = MAX_STEPS) -> None:
        self._most = most
        self._left = most
        self._looked = most
        self.where: Path = ()
        """The place in the document that is being compiled."""

    def spend(self, steps: int = 1) -> None:
        """Count steps.

        Raises:
            UnsupportedSchema: the budget is spent, or the caller of this thread was cancelled or is gone.
        """
        self._left -= steps
        if self._left < 0:
            raise UnsupportedSchema(
                f"compiling it takes more than {self._most:,} steps: its definitions use one another too often",
                pointer=pointer(self.where),
            )
        if self._looked - self._left >= _STEPS_BETWEEN_LOOKS:
            self._looked = self._left
            if is_given_up():
                raise UnsupportedSchema("compiling it was given up, since nobody waits for it")
