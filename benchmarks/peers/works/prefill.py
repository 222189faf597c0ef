"""(e) Reading a prompt that nobody has seen before, to the first token."""

from __future__ import annotations

from benchmarks.common.timing_form import timing_item
from benchmarks.peers.bench import Bench, rotated
from benchmarks.peers.prompts import form_task, text_task

__all__ = ["TOKENS", "measure"]

TOKENS = (128, 512, 1024, 2048)
_SHORT = TOKENS[:-1]


def measure(bench: Bench) -> None:
    """Rows of work "prefill", cases such as "512"."""
    for turn in range(bench.rounds(4)):
        for tokens in _SHORT if bench.is_short else TOKENS:
            task = form_task(bench.tokenizer, timing_item(bench.tokenizer, 1, tokens, f"prefill {turn} {tokens}"))
            bench.check_prompt(task)
            for name in rotated(bench.names, turn):
                bench.measure(
                    name,
                    text_task(task, max_tokens=1),
                    work="prefill",
                    case=str(tokens),
                    turn=turn,
                    length=len(task.ids),
                )
