"""An engine without weights: it says what a script tells it to, so that agents can be tested in milliseconds."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from agentform.errors import DeadlineExceeded, EngineClosed, ScriptMismatch
from agentform.messages import JsonValue, Usage
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Branch, Chunk, FinishReason, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult
from agentform.runtime.preparation import left_s, prepare_generation, prepare_score
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer
from agentform.runtime.scripted.script import (
    Call,
    Fail,
    Fill,
    ScriptedStep,
    ScriptedTurn,
    UnfinishedValue,
    scripted_value,
    unfinished_value,
)

__all__ = ["ScriptedEngine"]

_WORD = re.compile(rb"\s*\S+\s*\Z|\s*\S+|\s+")


@dataclass(kw_only=True)
class _BegunStep:
    """A step that has begun, with what has been asked of it."""

    step: ScriptedStep
    prompt_ids: tuple[int, ...] = ()
    """The prompt at which a turn began; its later requests all start with it."""
    said: int = 0
    """Bytes of the free text that were given out."""
    is_unspoken: bool = False
    """Whether the turn began with a choice, and no free text of it was asked for so far."""
    written: Counter[tuple[str, ...]] = field(default_factory=Counter[tuple[str, ...]])

    @property
    def text(self) -> bytes:
        return b"" if isinstance(self.step, Fail | Fill) else self.step.text.encode()


class ScriptedEngine:
    """Implements `agentform.runtime.engine.Engine` from a list of `Say`, `Call`, `Fail` and `Fill`.

    Each completion without a grammar begins the next turn of the script, and so does what is scored at a prompt of no
    turn, where no free text is wanted (the same prompt once more is then the same turn); what is scored or written
    after it belongs to that turn. The option that the script names gets `probability` and the others share the rest of
    `legal_mass`, the probability that all options hold together. The content-free prompts by which label priors are
    measured see all options alike: a script cannot answer a message that carries no content, such as "N/A", since its
    prompt is one of them.

    Raises:
        ScriptMismatch: something is asked for that is not in the script.
    """

    def __init__(
        self,
        script: Iterable[ScriptedStep],
        *,
        probability: float = 0.9,
        legal_mass: float = 1.0,
        context_tokens: int = 65_536,
        tokenizer: ByteTokenizer | None = None,
    ) -> None:
        steps = list(script)
        self._turns: list[ScriptedTurn] = [step for step in steps if not isinstance(step, Fill)]
        self._fills = [_BegunStep(step=step) for step in steps if isinstance(step, Fill)]
        self._begun: list[_BegunStep] = []
        self._probability = min(probability, legal_mass)
        self._legal_mass = legal_mass
        self._tokenizer = tokenizer or ByteTokenizer()
        self._info = ModelInfo(
            name="scripted",
            digest="scripted",
            context_tokens=context_tokens,
            vocabulary_size=self._tokenizer.vocabulary_size,
        )
        self._closed = False
        self.requests: list[GenerateRequest | ScoreRequest] = []
        """Every request so far, in order."""
        self.expected_returns: list[tuple[str, str]] = []
        """What `expect_return` was told: conversation, and after what."""

    @property
    def info(self) -> ModelInfo:
        """A model named "scripted"."""
        return self._info

    @property
    def tokenizer(self) -> ByteTokenizer:
        """One token per byte."""
        return self._tokenizer

    @property
    def num_turns_left(self) -> int:
        """Turns of the script that have not begun."""
        return len(self._turns) - len(self._begun)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """See `Engine.generate`.

        Raises:
            ScriptMismatch: the script does not hold what is asked.
            Exception: what `Fail` holds.
        """
        prepared = await prepare_generation(request, self._info, None)
        self._accept(request)
        if self._is_inside_string(request):
            yield self._last("eos", request, 0)
            return
        part = self._part_of(request.prompt_ids) if request.grammar else self._speaker(request.prompt_ids)
        if not await _waited(part.step.delay_s, prepared.deadline):
            yield self._last("deadline", request, 0)
            return
        if isinstance(part.step, Fail):
            raise part.step.error
        if request.grammar is None:
            chunks = self._free_text(request, part)
        else:
            chunks = self._value_text(request, part, request.grammar.lead, request.grammar.follow)
        for chunk in chunks:
            yield chunk
            await anyio.lowlevel.checkpoint()

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`.

        Raises:
            ScriptMismatch: the script does not hold what is asked.
        """
        deadline = prepare_score(request, self._info)
        self._accept(request)
        part = self._find(request.prompt_ids) or self._unspoken(request)
        if part is not None and not await _waited(part.step.delay_s, deadline):
            raise DeadlineExceeded(f"the request was not done within {request.deadline_s} s")
        if part is not None and isinstance(part.step, Fail):
            raise part.step.error
        await anyio.lowlevel.checkpoint()
        nullable = self._nullable(request, part) if part else frozenset()
        num_scored = len(request.prompt_ids) + sum(len(branch.path) for branch in request.branches)
        return ScoreResult(
            logprobs=tuple(self._logprobs(request.prompt_ids, b, part, nullable) for b in request.branches),
            usage=Usage(prompt_tokens=len(request.prompt_ids), computed_tokens=num_scored),
        )

    def expect_return(self, conversation: str, *, after: str) -> None:
        """See `Engine.expect_return`; kept in `expected_returns`."""
        self.expected_returns.append((conversation, after))

    def statistics(self) -> CacheStatistics:
        """Counts requests; there is no cache."""
        looked_up = sum(len(request.prompt_ids) for request in self.requests)
        return CacheStatistics(requests=len(self.requests), lookup_tokens=looked_up, computed_tokens=looked_up)

    async def aclose(self) -> None:
        """Refuse further requests with EngineClosed."""
        self._closed = True

    def _accept(self, request: GenerateRequest | ScoreRequest) -> None:
        if self._closed:
            raise EngineClosed("the scripted engine is closed")
        self.requests.append(request)

    def _is_inside_string(self, request: GenerateRequest) -> bool:
        """Whether it is asked if a string would go on where it is as long as it may be: a script's is whole."""
        if request.grammar is not None or request.max_tokens != 1:
            return False
        part = self._find(request.prompt_ids)
        if part is None:
            return False
        place = self._place(request.prompt_ids, self._server(request.prompt_ids, part))
        return bool(place.path) and place.written.lstrip().startswith('"')

    def _speaker(self, prompt_ids: tuple[int, ...]) -> _BegunStep:
        """The turn whose text goes on at this prompt: one that was cut off right there, or the next one."""
        for part in reversed(self._begun):
            if 0 < part.said < len(part.text) and prompt_ids == part.prompt_ids + tuple(part.text[: part.said]):
                return part
            if part.is_unspoken and part.prompt_ids == prompt_ids[: _start_of_turn(prompt_ids)]:
                part.prompt_ids, part.is_unspoken = prompt_ids, False
                return part
        if not self.num_turns_left:
            raise ScriptMismatch(f"asked for another turn after all {len(self._turns)} of the script")
        return self._begin(prompt_ids)

    def _unspoken(self, request: ScoreRequest) -> _BegunStep | None:
        """The next turn, where a call is asked for at once, without free text before it."""
        if request.aside or not self.num_turns_left:
            return None
        part = self._begin(request.prompt_ids[: _start_of_turn(request.prompt_ids)])
        part.is_unspoken = True
        return part

    def _begin(self, prompt_ids: tuple[int, ...]) -> _BegunStep:
        part = _BegunStep(step=self._turns[len(self._begun)], prompt_ids=prompt_ids)
        self._begun.append(part)
        return part

    def _part_of(self, prompt_ids: tuple[int, ...]) -> _BegunStep:
        part = self._find(prompt_ids)
        if part is None:
            asked = self._tokenizer.decode(prompt_ids)[-80:]
            raise ScriptMismatch(f"asked to write a value at a prompt that no step of the script serves: …{asked!r}")
        return part

    def _find(self, prompt_ids: tuple[int, ...]) -> _BegunStep | None:
        for part in reversed(self._begun):
            if prompt_ids[: len(part.prompt_ids)] == part.prompt_ids:
                return part
        return self._form(prompt_ids)

    def _form(self, ids: tuple[int, ...]) -> _BegunStep | None:
        text = self._tokenizer.decode(ids)
        return next((p for p in self._fills if isinstance(p.step, Fill) and p.step.about in text), None)

    def _server(self, ids: tuple[int, ...], part: _BegunStep) -> _BegunStep:
        """The part that serves a place in a turn: the turn itself, or a form that is its answer."""
        is_form = not isinstance(part.step, Fill) and self._written(ids, part).lstrip().startswith("{")
        return self._form(ids) or part if is_form else part

    def _free_text(self, request: GenerateRequest, part: _BegunStep) -> Iterable[Chunk]:
        text, finish, stop = _until_stop(part.text[part.said :], request.stop)
        shown = text[: len(text) - len(stop.encode())]
        num_sampled = len(text) + (finish == "eos")
        if num_sampled > request.max_tokens:
            text, finish, stop, num_sampled = text[: request.max_tokens], "length", "", request.max_tokens
            shown = text
        for word in _WORD.findall(shown):
            part.said += len(word)
            yield Chunk(text=word.decode(errors="ignore"), token_ids=tuple(word))
        part.said += len(text) - len(shown)
        yield self._last(finish, request, num_sampled, stop=stop, token_ids=tuple(text[len(shown) :]))

    def _value_text(self, request: GenerateRequest, part: _BegunStep, lead: str, follow: str) -> Iterable[Chunk]:
        ids = request.prompt_ids + self._tokenizer.encode(lead)
        part = self._server(ids, part)
        place = self._place(ids, part)
        value = scripted_value(part.step, place, part.written[place.path])
        part.written[place.path] += 1
        body = _json(value).encode()
        written = body[: request.max_tokens]
        complete = written == body
        text = lead + written.decode(errors="ignore") + (follow if complete else "")
        yield Chunk(text=text, token_ids=self._tokenizer.encode(text))
        yield self._last("grammar" if complete else "length", request, len(written))

    def _last(
        self,
        finish: FinishReason,
        request: GenerateRequest,
        num_sampled: int,
        *,
        stop: str = "",
        token_ids: tuple[int, ...] = (),
    ) -> Chunk:
        num_prompt = len(request.prompt_ids)
        usage = Usage(prompt_tokens=num_prompt, computed_tokens=num_prompt + num_sampled, completion_tokens=num_sampled)
        return Chunk(token_ids=token_ids, finish=finish, stop=stop or None, usage=usage)

    def _nullable(self, request: ScoreRequest, part: _BegunStep) -> frozenset[tuple[str, ...]]:
        """Where the request asks whether there is null; it may ask for a value in the same place beside that."""
        found: set[tuple[str, ...]] = set()
        for branch in request.branches:
            ids = request.prompt_ids + branch.path
            place = self._place(ids, self._server(ids, part))
            if not place.written.strip() and b"n"[0] in branch.candidates:
                found.add(place.path)
        return frozenset(found)

    def _logprobs(
        self, prompt_ids: tuple[int, ...], branch: Branch, part: _BegunStep | None, nullable: frozenset[tuple[str, ...]]
    ) -> tuple[float, ...]:
        num = len(branch.candidates)
        if num == 1:  # no choice: the text of a call's beginning
            return (math.log(self._probability),)
        ids = prompt_ids + branch.path
        wanted = self._wanted(ids, branch.candidates, self._server(ids, part), nullable) if part else None
        if wanted is None:
            return (math.log(self._legal_mass / num),) * num
        rest = max((self._legal_mass - self._probability) / max(num - 1, 1), 1e-9)
        return tuple(math.log(self._probability if c == wanted else rest) for c in branch.candidates)

    def _wanted(
        self, ids: tuple[int, ...], candidates: Sequence[int], part: _BegunStep, nullable: frozenset[tuple[str, ...]]
    ) -> int | None:
        """The candidate that goes on with the script's answer; `None` where the branch has left it already."""
        place = self._place(ids, part)
        if ByteTokenizer.END in candidates:  # another call, or the end of the turn
            done = not isinstance(part.step, Call) or place.num_before > len(part.step.also)
            return ByteTokenizer.END if done else next(c for c in candidates if c != ByteTokenizer.END)
        try:
            answer = _json(scripted_value(part.step, place))
        except ScriptMismatch:
            if place.path not in nullable:
                raise
            answer = "null"  # where `null` is an option, not to be in the script is to be absent
        if answer == "null" and place.path in nullable and b"n"[0] not in candidates:
            return None  # the value of what is absent
        # A value stands after its key and a space; what closes the object, or a line break, ends a number.
        expected = (f" {answer}}}" if place.path else f"{answer}\n").encode()
        written = place.written.encode(errors="surrogateescape")
        if not place.path and not isinstance(part.step, Fill):  # a name on a line of its own, not in JSON
            expected, written = f" {answer[1:-1]}\n".encode(), written.rpartition(b":")[2]
        if not expected.startswith(written) or written == expected:
            return None
        if expected[len(written)] not in candidates:
            raise ScriptMismatch(f"the script's {answer} for {place} is not among the options")
        return expected[len(written)]

    def _place(self, ids: tuple[int, ...], part: _BegunStep) -> UnfinishedValue:
        """Where the JSON of the assistant's turn breaks off; the free text before it may hold any quotes."""
        return unfinished_value(self._written(ids, part))

    def _written(self, ids: tuple[int, ...], part: _BegunStep) -> str:
        """What stands in the assistant's turn after its free text."""
        turn = bytes(i for i in ids[max(_start_of_turn(ids), len(part.prompt_ids)) :] if i < ByteTokenizer.START)
        said = part.text[: part.said].rstrip()
        turn = turn.removeprefix(b"assistant\n").removeprefix(said).removeprefix(said.lstrip())
        # A branch may end inside a character; surrogates keep its bytes.
        return turn.decode(errors="surrogateescape")


def _start_of_turn(ids: tuple[int, ...]) -> int:
    return len(ids) - ids[::-1].index(ByteTokenizer.START) if ByteTokenizer.START in ids else 0


def _until_stop(text: bytes, stops: Sequence[str]) -> tuple[bytes, FinishReason, str]:
    """The text up to and including the stop string that ends first."""
    found = [(at + len(stop.encode()), stop) for stop in stops if (at := text.find(stop.encode())) >= 0]
    if not found:
        return text, "eos", ""
    end, stop = min(found)
    return text[:end], "stop", stop


async def _waited(delay_s: float, deadline: float) -> bool:
    """Whether the delay was over before the deadline."""
    if not delay_s:
        return True
    with anyio.move_on_after(left_s(deadline)) as scope:
        await anyio.sleep(delay_s)
    return not scope.cancelled_caught


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
