"""Call or answer, and which tool: decided where the model would write the next thing, in its own tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentform._util.prefixes import common_prefix
from agentform.decoding.formats.framing import CallFraming
from agentform.decoding.formats.types import ToolCallFormat
from agentform.decoding.insertion_point import unframed
from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext, advance
from agentform.errors import Abstained
from agentform.forms.answer import Question
from agentform.forms.option_trie import build_trie
from agentform.forms.scoring import Priors, Scoring, choose, require_confidence
from agentform.messages import Alternative, Evidence
from agentform.runtime.engine import Branch, Tokenizer

__all__ = [
    "ANSWER",
    "CallMass",
    "another_call_mass",
    "answered",
    "call_mass",
    "choose_step",
    "choose_tool",
    "require_sure",
    "step_question",
    "tool_lines",
]

ANSWER = "answer"
"""The name under which "no tool" stands among the tools' names, for models that know no tools."""
_NUM_ALTERNATIVES = 3


@dataclass(frozen=True, kw_only=True)
class CallMass:
    """Probabilities of what may come next: the mark with which a call begins, and the end of the turn."""

    call: float
    end: float

    def answer(self, *, ended: bool) -> float:
        """The probability of an answer: of the end where the model has ended its text, else of anything but a call."""
        return self.end if ended else max(0.0, 1.0 - self.call)


def answered(call: float, answer: float) -> Evidence:
    """The evidence of an answer instead of a call, by the probability of either."""
    legal = min(1.0, call + answer)
    share = answer / (legal or 1.0)
    return Evidence(pointer="", value=None, how="scored", probability=share, raw_probability=share, legal_mass=legal)


async def call_mass(session: Session, format: ToolCallFormat, before: TokenContext, opening: str) -> CallMass:
    """What the model gives to a call after `before`; `opening` is the text up to the first call.

    Raises:
        EngineError: the engine cannot serve the request.
    """
    tokenizer = session.tokenizer
    line = _ids(tokenizer, advance(tokenizer, before, _mark(format, opening)))[len(before.ids) :]
    done = tokenizer.encode(before.tail)
    kept = common_prefix(done, line)
    rest, mark, ends = done[kept:], line[kept:], tuple(sorted(tokenizer.eos_ids - {*line[kept : kept + 1]}))
    prompt_ids = before.ids + line[:kept]
    # Where the text's last token would merge with the mark, `rest` spells the text before an end.
    branches = [Branch(path=(), candidates=(mark[0], *(rest[:1] or ends)))]
    branches += [Branch(path=path[:at], candidates=(path[at],)) for path in (mark, rest) for at in range(1, len(path))]
    scores = await session.score(prompt_ids, [*branches, *([Branch(path=rest, candidates=ends)] if rest else [])])
    call = math.exp(scores[0][0] + sum(row[0] for row in scores[1 : len(mark)]))
    if not rest:
        return CallMass(call=call, end=sum(map(math.exp, scores[0][1:])))
    spelt = math.exp(scores[0][1] + sum(row[0] for row in scores[len(mark) : -1]))
    given = max(spelt + call, 1e-300)
    return CallMass(call=call / given, end=spelt * sum(map(math.exp, scores[-1])) / given)


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
    answer: float = 0.0,
) -> Evidence:
    """Which tool is called at `before`, where its name would stand; `following` comes after the name.

    `other` is what would be written there instead of a name for an answer; its evidence has the value `None`.
    `called` is the probability that there is a call at all, `answer` that of an answer, against which it won.

    Raises:
        EngineError: the engine cannot serve the request.
        Abstained: the choice stayed below the limits on legal mass or probability.
    """
    if len(names) == 1 and other is None:
        return _only(names[0], called, answer, session.limits)
    lines = tool_lines(session.tokenizer, before, names, following, other)
    trie = build_trie(lines)
    scores = trie.log_scores(await session.score(before.ids, trie.branches))
    masses = [called * math.exp(score) for score in scores]
    values: list[str | None] = [*names, None][: len(lines)]
    best = max(range(len(values)), key=masses.__getitem__)
    if answer:
        values, masses = [*values, None], [*masses, answer]
    total = sum(masses) or 1.0
    order = sorted((i for i in range(len(values)) if i != best), key=lambda i: -masses[i])
    decision = Evidence(
        pointer="",
        value=values[best],
        how="scored",
        probability=masses[best] / total,
        raw_probability=masses[best] / total,
        legal_mass=min(1.0, total),
        alternatives=tuple(Alternative(value=values[i], probability=masses[i] / total) for i in order)[
            :_NUM_ALTERNATIVES
        ],
    )
    return require_sure(decision, session.limits)


def tool_lines(
    tokenizer: Tokenizer, before: TokenContext, names: Sequence[str], following: str, other: str | None = None
) -> list[tuple[int, ...]]:
    """Token ids after `before.ids` of each name with what follows it, and of `other` if there is one."""
    texts = [(name, following) for name in names] + ([("", other)] if other is not None else [])
    lines = [_ids(tokenizer, advance(tokenizer, before.with_text(name), text)) for name, text in texts]
    return [line[len(before.ids) :] for line in lines]


def _only(name: str, called: float, answer: float, limits: Limits) -> Evidence:
    """The choice of the only tool."""
    if not answer:
        return Evidence(pointer="", value=name, how="fixed")
    legal = min(1.0, called + answer)
    share = called / legal
    other = (Alternative(value=None, probability=answer / legal),)
    decision = Evidence(
        pointer="",
        value=name,
        how="scored",
        probability=share,
        raw_probability=share,
        legal_mass=legal,
        alternatives=other,
    )
    return require_sure(decision, limits)


def require_sure(decision: Evidence, limits: Limits) -> Evidence:
    """The decision, if it keeps to the limits on legal mass and probability; one that was fixed does.

    Raises:
        Abstained: it does not.
    """
    for name, reached, least in (
        ("legal mass", decision.legal_mass, limits.min_legal_mass),
        ("probability", decision.probability, limits.min_probability),
    ):
        if reached is not None and least is not None and reached < least:
            reason = f"the next step: {name} {reached:.3g} is below the limit of {least:.3g}"
            raise Abstained(reason, [decision])
    return decision


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
    question = step_question(names, answer)
    [chosen] = await choose(session, unframed(context.with_text(lead)), [question], scoring=scoring, priors=priors())
    require_confidence([chosen], session.limits)
    return chosen.evidence()


def step_question(names: Sequence[str], answer: str | None) -> Question:
    """The choice among tools, and `answer` if that stands for none of them."""
    options = [*names, answer] if answer is not None else list(names)
    return Question(
        path=(),
        kind="action",
        lead="",
        texts=tuple(f" {name}\n" for name in options),
        groups=tuple(range(len(options))),
        answers=(*names, None) if answer is not None else tuple(names),
    )


async def another_call_mass(session: Session, format: ToolCallFormat, end: TokenContext) -> CallMass:
    """What the model gives to another call after the one at `end`, and to the end of the calls.

    Raises:
        EngineError: the engine cannot serve the request.
    """
    tokenizer, layout = session.tokenizer, format.layout
    more = _ids(tokenizer, advance(tokenizer, end, layout.between + CallFraming(format=format).before_name))
    done = _ids(tokenizer, advance(tokenizer, end, layout.section_close) if layout.section_close else end)
    kept = common_prefix(done, more)
    if kept == len(more):
        return CallMass(call=0.0, end=1.0)
    # Where the last token would merge with what comes next, the turn ends only after that token was written.
    ends = tuple(sorted(tokenizer.eos_ids)) if kept == len(done) else (done[kept],)
    [scores] = await session.score(more[:kept], [Branch(path=(), candidates=(more[kept], *ends))])
    return CallMass(call=math.exp(scores[0]), end=sum(map(math.exp, scores[1:])))


def _ids(tokenizer: Tokenizer, context: TokenContext) -> tuple[int, ...]:
    return context.ids + tokenizer.encode(context.tail)
