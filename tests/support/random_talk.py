"""Random conversations with branches, edits and concurrent requests, the same for every engine that plays them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import anyio

from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import complete

__all__ = ["Talk", "Turn", "play", "talks"]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What is asked next; the prompt is `keep` tokens of the conversation so far (`None`: all) and then `new`."""

    keep: int | None
    new: tuple[int, ...]
    num_written: int
    """Tokens to generate; 0 for a score."""
    branches: tuple[Branch, ...] = ()
    boundaries: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Talk:
    """One conversation; those of a list run at once."""

    name: str
    turns: tuple[Turn, ...]


@dataclass(kw_only=True)
class Answers:
    """What an engine said, by conversation and turn."""

    tokens: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    logprobs: dict[tuple[str, int], tuple[float, ...]] = field(default_factory=dict)
    prompts: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)


def talks(seed: int, num: int, *, alphabet: range, length: int) -> list[Talk]:
    """`num` conversations of up to about `length` tokens that share a few beginnings."""
    draw = random.Random(seed)
    systems = [tuple(draw.choices(alphabet, k=draw.randrange(8, length // 4))) for _ in range(2)]
    return [Talk(name=f"{seed}.{i}", turns=_turns(draw, systems, alphabet, length)) for i in range(num)]


def _turns(draw: random.Random, systems: list[tuple[int, ...]], alphabet: range, length: int) -> tuple[Turn, ...]:
    system = draw.choice(systems)
    turns, size = [], 0
    for index in range(draw.randrange(2, 6)):
        words = tuple(draw.choices(alphabet, k=draw.randrange(1, 12)))
        edits = index > 0 and draw.random() < 0.3
        keep = draw.randrange(1, size + 1) if edits else None
        new = system + words if index == 0 else words
        writes = draw.randrange(1, 9) if draw.random() < 0.6 else 0
        at = (size if keep is None else keep) + len(new)
        if at + 40 > length:  # completions make it longer
            break
        boundaries = (len(system),) if index == 0 else (draw.randrange(1, at),) if draw.random() < 0.5 else ()
        branches = () if writes else _branches(draw, alphabet)
        turns.append(Turn(keep=keep, new=new, num_written=writes, branches=branches, boundaries=boundaries))
        size = at + writes  # at most: a completion may end early
    return tuple(turns)


def _branches(draw: random.Random, alphabet: range) -> tuple[Branch, ...]:
    """Few tokens, so that paths share beginnings."""
    few = alphabet[:3]
    paths = {tuple(draw.choices(few, k=draw.randrange(4))) for _ in range(draw.randrange(1, 6))}
    return tuple(Branch(path=path, candidates=tuple(draw.sample(alphabet, 3))) for path in sorted(paths))


async def play(engine: TorchEngine, several: list[Talk]) -> Answers:
    """Hold the conversations at the same time, each turn after the one before it."""
    answers = Answers()
    async with anyio.create_task_group() as group:
        for talk in several:
            group.start_soon(_hold, engine, talk, answers)
    return answers


async def _hold(engine: TorchEngine, talk: Talk, answers: Answers) -> None:
    said: tuple[int, ...] = ()
    for index, turn in enumerate(talk.turns):
        key = (talk.name, index)
        prompt = said[: turn.keep] + turn.new
        answers.prompts[key] = prompt
        options = {"conversation": talk.name, "boundaries": turn.boundaries}
        if turn.num_written:
            answers.tokens[key] = (await complete(engine, prompt, turn.num_written, **options)).token_ids
            said = prompt + answers.tokens[key]
        else:
            result = await engine.score(ScoreRequest(prompt_ids=prompt, branches=turn.branches, **options))
            answers.logprobs[key] = tuple(value for branch in result.logprobs for value in branch)
            said = prompt
        engine.expect_return(talk.name, after="a tool")
