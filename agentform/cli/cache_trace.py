"""Requests that a cache is tried on: from a file, or like those that an engine counted.

A trace is a text file of JSON objects, one a line, in the order in which requests came::

    {"conversation": "a17", "prompt_tokens": 4120, "completion_tokens": 60, "shared_tokens": 900, "time": 12.5}

`tokens` in place of the first two is the length of a conversation of whose end nothing was written by the model.
`shared_tokens` begin every conversation that has as many, such as system prompt and tools. `time` (seconds) is when a
request came, `seconds` how long it took; without the first they come one after the other, without the second an answer
takes what it usually does; after a `finish_reason` of "tool_calls" the conversation waits for a tool. Other
keys are not read.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentform.errors import InvalidInput
from agentform.runtime.cache.working_set import ReuseDistances, WorkingSet
from agentform.runtime.scheduling.replay import TracedRequest

__all__ = ["Trace", "read_trace", "stream_like"]

_PAUSE_S = 1.0
_TOKENS_PER_S = 60.0
"""Assumed of answers, whose time a trace does not tell."""
_MOST_NUMBERS = 1_000_000
"""So many blocks of all prompts are played; longer traces are played in larger blocks."""
_NUMBERS = 1 << 32
"""Of a conversation, so that none has another's."""
_MOST_USES = 4_000


@dataclass(frozen=True, kw_only=True)
class _Line:
    conversation: str
    prompt: int
    written: int
    shared: int
    time_s: float
    seconds: float
    finish: object = None


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Requests, and how finely they are numbered."""

    requests: tuple[TracedRequest, ...]
    block_tokens: int
    working_set: WorkingSet
    mean_tokens: float
    """Of a conversation when it is used."""


def read_trace(path: Path) -> Trace:
    """Read a trace, see the module docstring.

    Raises:
        InvalidInput: a line is wrong; it says which.
    """
    lines: list[_Line] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    lines.append(_record(line, f"{path}:{number}", after_s=lines[-1].time_s if lines else 0.0))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    return _trace(lines)


def stream_like(seen: WorkingSet, mean_tokens: float, *, seed: int = 0) -> Trace:
    """Conversations of the mean length that come back over distances as those that were counted, drawn at random.

    New ones come as often as they did, at first as many as the longest distance needs.
    """
    draw = random.Random(seed)
    distances, weights = list(seen.distances), list(seen.distances.values())
    returns = min(sum(weights), _MOST_USES)
    news = max(0, seen.first_uses - seen.slots_needed) * returns // max(1, sum(weights))
    kinds = [True] * returns + [False] * news
    draw.shuffle(kinds)
    stack = list(range(seen.slots_needed))  # what was used last stands last
    uses = [*stack]
    for comes_back in kinds:
        if comes_back:
            [distance] = draw.choices(distances, weights)
            stack.append(stack.pop(len(stack) - 1 - distance))
        else:
            stack.append(len(uses) + len(stack))
        uses.append(stack[-1])
    length = max(1, round(mean_tokens))
    return _trace(
        _Line(conversation=str(name), prompt=length, written=0, shared=0, time_s=at * _PAUSE_S, seconds=0.0)
        for at, name in enumerate(uses)
    )


def _trace(lines: Iterable[_Line]) -> Trace:
    read = list(lines)
    reuse = ReuseDistances()
    for line in read:
        reuse.use(line.conversation)
    total = sum(line.prompt + line.written for line in read)
    block = 1
    while total // block > _MOST_NUMBERS:
        block *= 2
    return Trace(
        requests=tuple(_numbered(read, block)),
        block_tokens=block,
        working_set=reuse.working_set(),
        mean_tokens=total / max(1, len(read)),
    )


def _numbered(lines: Iterable[_Line], block: int) -> Iterator[TracedRequest]:
    """What a conversation says again has its numbers again; one that gets shorter was written anew."""
    first: dict[str, int] = {}
    lengths: dict[str, int] = {}
    fresh = 0
    for line in lines:
        if line.prompt < lengths.get(line.conversation, 0) or line.conversation not in first:
            first[line.conversation] = fresh = fresh + 1
        lengths[line.conversation] = line.prompt
        shared, own = line.shared // block, first[line.conversation] * _NUMBERS
        # Those of one length are the same beginning.
        ids = (*(-line.shared * _NUMBERS - at - 1 for at in range(shared)),)
        prompt, end = line.prompt // block, (line.prompt + line.written) // block
        yield TracedRequest(
            conversation=line.conversation,
            start_s=line.time_s,
            end_s=line.time_s + line.seconds,
            num_prompt=line.prompt,
            prompt=(*ids[:prompt], *range(own + shared, own + prompt)),
            written=tuple(range(own + prompt, own + end)),
            boundaries=(shared,) if 0 < shared < prompt else (),
            calls=line.finish == "tool_calls",
        )


def _record(line: str, where: str, *, after_s: float) -> _Line:
    try:
        record: Any = json.loads(line)
        conversation = str(record["conversation"])
        prompt = _tokens(record, "tokens", where) if "tokens" in record else _tokens(record, "prompt_tokens", where)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{where}: not an object with 'conversation' and 'tokens': {error!r}") from error
    written = _tokens(record, "completion_tokens", where) if "completion_tokens" in record else 0
    shared = _tokens(record, "shared_tokens", where) if "shared_tokens" in record else 0
    return _Line(
        conversation=conversation,
        prompt=prompt,
        written=written,
        shared=min(shared, prompt),
        time_s=_seconds(record.get("time", after_s + _PAUSE_S), "time", where, least=after_s),
        seconds=_seconds(record.get("seconds", written / _TOKENS_PER_S), "seconds", where, least=0.0),
        finish=record.get("finish_reason"),
    )


def _seconds(value: object, key: str, where: str, *, least: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value < math.inf:
        raise InvalidInput(f"{where}: {key!r} is {value!r}, not a number of seconds, {least:g} or more")
    return value


def _tokens(record: dict[str, Any], key: str, where: str) -> int:
    num = record[key]
    if not isinstance(num, int) or isinstance(num, bool) or num < 0:
        raise InvalidInput(f"{where}: {key!r} is {num!r}, not a number of tokens")
    return num
