"""(d) Free text, greedy, after a cached prompt: milliseconds per token."""

from __future__ import annotations

from agentform.messages import Message
from benchmarks.common.items import Item
from benchmarks.peers.bench import Bench, rotated
from benchmarks.peers.prompts import form_task, text_task

__all__ = ["TOKENS", "measure"]

TOKENS = 96
_ASKED = "Tell me a long story about a lighthouse keeper and the sea, with many details of every day of the year."


def measure(bench: Bench) -> None:
    """Rows of work "decode", cases "1" and `TOKENS`: their difference leaves out what happens once a request."""
    item = Item(id="story", set="", form="", about="", messages=(Message(role="user", content=_ASKED),), fields=())
    task = form_task(bench.tokenizer, item)
    bench.check_prompt(task)
    rounds = bench.rounds(5)
    for name in bench.names:
        bench.aside(name, text_task(task, max_tokens=8))
    for turn in range(rounds):
        for name in rotated(bench.names, turn):
            for tokens in (1, TOKENS):
                bench.measure(name, text_task(task, max_tokens=tokens), work="decode", case=str(tokens), turn=turn)
