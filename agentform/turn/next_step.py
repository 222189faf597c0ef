"""Call or answer, and which tool: decided where the model would write the next thing, in its own tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentform._util.prefixes import common_prefix
from agentform.decoding.formats.framing import CallFraming
from agentform.decoding.formats.types import ToolCallFormat
from agentform.decoding.insertion_point import unframed
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext, advance
from agentform.forms.answer import Question
from agentform.forms.option_trie import build_trie
from agentform.forms.scoring import Priors, Scoring, choose, require_confidence
from agentform.messages import Alternative, Evidence
from agentform.runtime.engine import Branch, Tokenizer

__all__ = ["ANSWER", "CallMass", "another_follows", "call_mass", "choose_step", "choose_tool"]

ANSWER = "answer"
"""The name under which "no tool" stands among the tools' names, for models that know no tools."""
_NUM_ALTERNATIVES = 3


@dataclass(frozen=True, kw_only=True)
class CallMass:
    """Probabilities of what may come next: the mark with which a call begins, and the end of the turn."""

    call: float
    end: float

    def calls(self, *, ended: bool) -> bool:
        """Whether a call is next: against the end where the model has ended its text, else against anything else."""
        return self.call > self.end if ended else self.call > 0.5


async def call_mass(session: Session, format: ToolCallFormat, before: TokenContext, opening: str) -> CallMass:
    """What the model gives to a call after `before`; `opening` is the text up to the first call.

    Raises:
        EngineError: the engine cannot serve the request.
    """
    tokenizer = session.tokenizer
    line = _ids(tokenizer, advance(tokenizer, before, _mark(format, opening)))[len(before.ids) :]
    ends = sorted(tokenizer.eos_ids)
    done = tokenizer.encode(before.tail)
    kept = common_prefix(done, line)
    branches = [Branch(path=(), candidates=(line[kept], *(token for token in ends if token != line[kept])))]
    branches += [Branch(path=line[kept:upto], candidates=(line[upto],)) for upto in range(kept + 1, len(line))]
    scores = await session.score(before.ids + line[:kept], branches)
    end = sum(math.exp(score) for score in scores[0][1:])
    return CallMass(call=math.exp(sum(row[0] for row in scores)), end=end)


def _mark(format: ToolCallFormat, opening: str) -> str:
    """The opening up to the end of the mark in it."""
    mark = next((mark for mark in format.marks if mark in opening), "")
    return opening[: opening.index(mark) + len(mark)] if mark else opening


async def choose_tool(
    session: Session,
    before: TokenContext,
    names: Sequence[str],
    following: str,
    *,
    other: str | None = None,
    called: float = 1.0,
) -> Evidence:
    """Which tool is called at `before`, where its name would stand; `following` comes after the name.

    `other` is what would be written there instead of a name for an answer; its evidence has the value `None`.
    `called` is the probability that there is a call at all.

    Raises:
        EngineError: the engine cannot serve the request.
        Abstained: the choice stayed below the limits on legal mass or probability.
    """
    if len(names) == 1 and other is None:
        return Evidence(pointer="", value=names[0], how="fixed" if called == 1.0 else "scored", probability=None)
    tokenizer = session.tokenizer
    texts = [(name, following) for name in names] + ([("", other)] if other is not None else [])
    lines = [_ids(tokenizer, advance(tokenizer, before.with_text(name), text)) for name, text in texts]
    trie = build_trie([line[len(before.ids) :] for line in lines])
    scores = trie.log_scores(await session.score(before.ids, trie.branches))
    masses = [math.exp(score) for score in scores]
    total = sum(masses) or 1.0
    values: list[str | None] = [*names, None][: len(texts)]
    order = sorted(range(len(values)), key=lambda i: -masses[i])
    best = order[0]
    others = [Alternative(value=values[i], probability=called * masses[i] / total) for i in order[1:]]
    return Evidence(
        pointer="",
        value=values[best],
        how="scored",
        probability=called * masses[best] / total,
        raw_probability=called * masses[best] / total,
        legal_mass=min(1.0, total),
        alternatives=tuple(others[:_NUM_ALTERNATIVES]),
    )


async def choose_step(
    session: Session,
    context: TokenContext,
    names: Sequence[str],
    *,
    lead: str,
    answer: str | None,
    scoring: Scoring,
    priors: Callable[[], Priors],
) -> Evidence:
    """The next step of a model without tools: one of `names`, or `answer`, on a line that begins with `lead`.

    Raises:
        EngineError: the engine cannot serve the request.
        Abstained: the choice stayed below the limits on legal mass or probability.
    """
    if len(names) == 1 and answer is None:
        return Evidence(pointer="", value=names[0], how="fixed")
    options = [*names, answer] if answer is not None else list(names)
    question = Question(
        path=(),
        kind="action",
        lead="",
        texts=tuple(f" {name}\n" for name in options),
        groups=tuple(range(len(options))),
        answers=(*names, None) if answer is not None else tuple(names),
    )
    [chosen] = await choose(session, unframed(context.with_text(lead)), [question], scoring=scoring, priors=priors())
    require_confidence([chosen], session.limits)
    return chosen.evidence()


async def another_follows(session: Session, format: ToolCallFormat, end: TokenContext) -> bool:
    """Whether the beginning of another call is more probable than the end of the calls, after the call at `end`.

    Raises:
        EngineError: the engine cannot serve the request.
    """
    tokenizer, layout = session.tokenizer, format.layout
    more = _ids(tokenizer, advance(tokenizer, end, layout.between + CallFraming(format=format).before_name))
    done = _ids(tokenizer, advance(tokenizer, end, layout.section_close) if layout.section_close else end)
    kept = common_prefix(done, more)
    if kept == len(more):
        return False
    # Where the last token would merge with what comes next, the turn ends only after that token was written.
    ends = tuple(sorted(tokenizer.eos_ids)) if kept == len(done) else (done[kept],)
    [scores] = await session.score(more[:kept], [Branch(path=(), candidates=(more[kept], *ends))])
    return scores[0] > max(scores[1:])


def _ids(tokenizer: Tokenizer, context: TokenContext) -> tuple[int, ...]:
    return context.ids + tokenizer.encode(context.tail)
