"""(a) Closed forms of 1 to 9 fields after a 500-token prompt, cached or not; of twelve for agentform's own slope."""

from __future__ import annotations

from benchmarks.common.timing_form import timing_item
from benchmarks.peers.bench import Bench, rotated
from benchmarks.peers.prompts import form_task, text_task
from benchmarks.peers.roster import OURS
from benchmarks.peers.task import Task

__all__ = ["FIELDS", "SLOPE_FIELDS", "measure"]

FIELDS = (1, 3, 6, 9)
SLOPE_FIELDS = 12
_PROMPT_TOKENS = 500


def measure(bench: Bench) -> None:
    """Rows of work "closed", cases such as "warm 9"."""
    rounds, fields = bench.rounds(4), (1, 9) if bench.is_short else FIELDS
    cases = [(state, count) for state in ("warm", "cold") for count in fields]
    bench.check_prompt(_task(bench, 1, "check"))
    _compile(bench, (*fields, SLOPE_FIELDS))
    for turn in range(rounds):
        for state, count in [*cases, ("warm", SLOPE_FIELDS)]:
            for name in rotated(bench.names, turn):
                if count == SLOPE_FIELDS and name != OURS:
                    continue
                # Whoever comes first has not read it for the others, but each peer begins anew with every case.
                task = _task(bench, count, f"{turn}-{state}-{count}")
                if state == "warm":
                    bench.aside(name, text_task(task, max_tokens=1))
                bench.measure(name, task, work="closed", case=f"{state} {count}", turn=turn)


def _compile(bench: Bench, fields: tuple[int, ...]) -> None:
    """Every form once, so that no grammar is compiled and no label prior measured while the clock runs."""
    for count in fields:
        for name in bench.names:
            if count != SLOPE_FIELDS or name == OURS:
                bench.aside(name, _task(bench, count, "compile"))


def _task(bench: Bench, count: int, nonce: str) -> Task:
    return form_task(bench.tokenizer, timing_item(bench.tokenizer, count, _PROMPT_TOKENS, nonce))
