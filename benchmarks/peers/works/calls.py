"""(b) Mixed calls: which tool, and all of its arguments. Tools known (read, compiled, measured before) or new."""

from __future__ import annotations

from dataclasses import replace

from agentform.messages import Message
from benchmarks.peers.ast_rule import is_accepted
from benchmarks.peers.bench import Bench, rotated
from benchmarks.peers.bfcl import Question, load_questions
from benchmarks.peers.prompts import call_task
from benchmarks.peers.roster import OURS
from benchmarks.peers.task import Task
from benchmarks.peers.validity import parsed

__all__ = ["measure"]

_BEFORE = (Message(role="user", content="Hello, who are you and what can you do for me?"),)
"""Asked before a question whose tools are to be known."""
_FAST = (OURS, "llama_cpp")
"""Who is asked more questions than all: accuracy needs many, and time is short."""


def measure(bench: Bench) -> None:
    """Rows of work "calls", cases "known" and "new", with "right" by BFCL's rule; a round is a question."""
    for_all, more, num_new = (3, 0, 1) if bench.context.quick else (20, 76, 5)
    questions = load_questions(bench.context, for_all + more + num_new)
    num_new = min(num_new, len(questions) // 3)
    # Others than those whose tools are known: a large cache would still hold them.
    questions, new = questions[:-num_new], questions[-num_new:]
    bench.check_prompt(_task(bench, questions[0]))
    for turn, question in enumerate(new):
        for name in rotated(bench.names, turn):
            _measure(bench, name, question, "new", turn)
    for turn, question in enumerate(questions):
        for name in rotated(bench.names, turn):
            if turn >= for_all and name not in _FAST:
                continue
            _know(bench, name, question)
            _measure(bench, name, question, "known", turn)


def _measure(bench: Bench, name: str, question: Question, case: str, turn: int) -> None:
    written = bench.measure(name, _task(bench, question), work="calls", case=case, turn=turn, id=question.id)
    if written is not None:
        right = is_accepted(parsed(written.text), question.accepted, question.declared)
        bench.rows[-1]["right"] = right


def _know(bench: Bench, name: str, question: Question) -> None:
    """The tools' text is in the prefix cache, their grammar compiled; agentform has measured its label priors.

    A peer needs one token under the grammar for that, agentform a whole call.
    """
    before = _task(bench, replace(question, messages=_BEFORE))
    bench.aside(name, before if name == OURS else replace(before, max_tokens=1))


def _task(bench: Bench, question: Question) -> Task:
    return call_task(bench.tokenizer, question.messages, question.tools)
