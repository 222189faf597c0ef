"""The processes of one run, and who has fallen out of it and why."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentform.runtime.engine import Tokenizer
from benchmarks.common.harness import Context
from benchmarks.common.processes import ChildFailed
from benchmarks.peers.identity import difference
from benchmarks.peers.process import Process
from benchmarks.peers.roster import Peer
from benchmarks.peers.task import Model, Task, Written
from benchmarks.peers.validity import is_valid
from benchmarks.peers.venvs import Skipped, python_of

__all__ = ["Bench", "Row", "rotated"]

Row = dict[str, Any]
"""One measurement: "work", "case", "round", "peer"; mostly the fields of `Written` too, and whether it is "valid"."""


@dataclass(kw_only=True)
class Bench:
    """What every work of the benchmark is given."""

    context: Context
    tokenizer: Tokenizer
    model: Model
    roster: Mapping[str, Peer]
    """Who takes part, agentform first."""
    folder: Path
    """Of the environments and logs."""
    pythons: dict[str, Path] = field(default_factory=dict[str, Path])
    processes: dict[str, Process] = field(default_factory=dict[str, Process])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """Reasons, by peer."""
    faults: list[Row] = field(default_factory=list[Row])
    """Tasks that a peer failed at: "work", "case", "round", "peer", "reason"."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    versions: dict[str, Any] = field(default_factory=dict[str, Any])
    rows: list[Row] = field(default_factory=list[Row])

    @contextmanager
    def open(self) -> Iterator[Bench]:
        """Make the environments, start and load every peer; end all at the end, also when this process is ended.

        A stopped child does not notice that its parent is gone.
        """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            for peer in self.roster.values():
                self._say(f"{peer.title}: loading")
                try:
                    self.pythons[peer.name] = python_of(peer, self.folder)
                    process = self.processes[peer.name] = self.start(peer)
                    self.versions[peer.name] = process.ask({"op": "versions", "packages": list(peer.shows)})
                    self.settings[peer.name] = process.load(self.model)
                except (Skipped, ChildFailed) as reason:
                    self.drop(peer.name, str(reason))
            yield self
        finally:
            for process in self.processes.values():
                process.close()

    def start(self, peer: Peer, log: str = "") -> Process:
        """A fresh process of a peer whose environment is there; `log` names its log, by default after the peer."""
        return Process(self.pythons[peer.name], peer.driver, self.folder / f"{log or peer.name}.log")

    def drop(self, name: str, reason: str) -> None:
        """The peer takes no further part."""
        self.skipped[name] = reason
        self._say(f"{name}: skipped: {reason}")
        if name in self.processes:
            self.processes.pop(name).close()

    def check_prompt(self, task: Task) -> None:
        """Drop every peer that does not read the task's prompt token for token."""
        opening = len(self.tokenizer.encode(task.opening))
        for name in self.names:
            try:
                found = self.processes[name].ask({"op": "prompt_ids", "task": task.as_json()})
                if said := difference(task, found, opening):
                    self.drop(name, said)
            except ChildFailed as error:
                self.drop(name, str(error))

    @property
    def is_short(self) -> bool:
        """Whether works leave out some of their cases."""
        return self.context.quick or self.context.options.get("rounds") is not None

    def rounds(self, usual: int) -> int:
        """How often a case is measured: once in a quick run, else as often as was asked for."""
        return 1 if self.context.quick else self.context.options.get("rounds") or usual

    @property
    def names(self) -> list[str]:
        """Who is still there."""
        return list(self.processes)

    def aside(self, name: str, task: Task) -> Written | None:
        """Do a task that is not measured; None when the peer failed at it."""
        return self._ask(name, task, work="aside", case=task.kind, turn=0)

    def measure(self, name: str, task: Task, *, work: str, case: str, turn: int, **more: Any) -> Written | None:
        """Do a task and keep a row of it; None when the peer failed at it."""
        written = self._ask(name, task, work=work, case=case, turn=turn)
        if written is not None:
            if task.schema is not None:
                more["valid"] = is_valid(written.text, task.schema)
            self.add(name, work=work, case=case, turn=turn, **asdict(written), **more)
        return written

    def add(self, name: str, *, work: str, case: str, turn: int, **more: Any) -> None:
        """Keep a row."""
        self.rows.append({"work": work, "case": case, "round": turn, "peer": name, **more})

    def fault(self, name: str, *, work: str, case: str, turn: int, reason: str) -> None:
        """Note what a peer failed at."""
        self.faults.append({"work": work, "case": case, "round": turn, "peer": name, "reason": reason[:500]})

    def _ask(self, name: str, task: Task, *, work: str, case: str, turn: int) -> Written | None:
        if name not in self.processes:  # it was dropped while others had their turn
            return None
        try:
            return self.processes[name].run(task)
        except ChildFailed as error:
            if work != "aside":
                self.fault(name, work=work, case=case, turn=turn, reason=str(error))
            if self.processes[name].is_gone:
                self.drop(name, str(error))
            return None

    def _say(self, text: str) -> None:
        self.context.console.print(text, markup=False, highlight=False)


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """Everybody once, someone else first with every turn."""
    at = turn % len(names) if names else 0
    return [*names[at:], *names[:at]]
