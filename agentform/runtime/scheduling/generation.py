"""A completion in progress."""

from __future__ import annotations

from collections.abc import Callable

from agentform._util.prefixes import common_prefix
from agentform.errors import EngineError
from agentform.grammar.matcher import Matcher
from agentform.runtime.cache.ranges import count
from agentform.runtime.detokenizer import TextStream
from agentform.runtime.engine import Chunk, FinishReason, GenerateRequest
from agentform.runtime.scheduling.logits import Row, Rows, Sampler
from agentform.runtime.scheduling.prompt_lookup import PromptLookup
from agentform.runtime.scheduling.request import Job
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.thread_channel import Mailbox

__all__ = ["GenerateJob"]


class GenerateJob(Job):
    """Samples until an end: eos, stop string, token limit, grammar, deadline or a full context.

    `ids` is the prompt and all that was sampled or forced; the last of it may not be computed yet::

        [ prompt | sampled and forced ... ]
                              ^ num_computed: the next segment starts here

    Tokens that the grammar forces are appended without being sampled and count as computed, not as completion.
    `max_tokens` bounds the sampled ones.

    With a `lookup` a segment may hold guessed tokens after those of `ids`. Each is sampled like any other from the
    logits before it; at the first that comes out otherwise the rest of the guess is forgotten.
    """

    def __init__(
        self,
        request: GenerateRequest,
        *,
        mailbox: Mailbox[Chunk],
        deadline: float | None,
        sampler: Sampler,
        matcher: Matcher | None,
        lookup: PromptLookup | None = None,
        token_bytes: Callable[[int], bytes],
        eos_ids: frozenset[int],
        vocabulary_size: int,
        context_tokens: int,
    ) -> None:
        """The job may be done already.

        Raises:
            GrammarError: the grammar fails at its start.
        """
        super().__init__(
            request.prompt_ids,
            mailbox=mailbox,
            deadline=deadline,
            usable=0,
            conversation=request.conversation,
            boundaries=request.boundaries,
            salt=request.cache_salt,
        )
        self._sampler = sampler
        self._matcher = matcher
        self._lookup = lookup
        self._guess: list[int] = []  # after `ids` in the segment under way
        self._token_bytes = token_bytes
        self._eos_ids = eos_ids
        self._vocabulary_size = vocabulary_size
        self._context_tokens = context_tokens
        self._max_tokens = min(request.max_tokens, context_tokens - len(request.prompt_ids))
        self._stream = TextStream(request.stop)
        self._num_sampled = 0
        self._follow_grammar()
        self.usable = len(self.ids) - 1

    @property
    def extra_tokens(self) -> int:
        # The last sampled token is never computed, but one position of slack keeps the sum plain.
        return self._max_tokens

    @property
    def is_decoding(self) -> bool:
        return self.num_computed >= self.num_prompt

    def next_segment(self, budget: int, *, whole: bool) -> Segment | None:
        num = min(budget, len(self.ids) - self.num_computed)
        if num <= 0:
            return None
        is_last = self.num_computed + num == len(self.ids)
        self._guess = self._guessed(budget - num) if is_last else []
        return self._continue(num, ahead=self._guess, rows=range(num - 1, num + len(self._guess)) if is_last else ())

    def advance(self, segment: Segment, logits: Rows) -> None:
        self._advance(segment, num_ahead=len(self._guess))
        if segment.rows:
            self._sample(logits)
        if not self.done:
            self._forget_guess()
            if segment.num_before < self.num_prompt:
                self._keep()  # a request with the same prompt need not wait for this completion

    def _sample(self, logits: Rows) -> None:
        """Sample from the first row, and from the rows after guessed tokens as long as they are what is sampled."""
        start, row = len(self.ids), 0
        while self.ids[start:] == self._guess[:row] and row < len(logits):
            if self._num_sampled >= self._max_tokens:
                self._close("length")
                return
            token = self._pick(logits[row])
            self._num_sampled += 1
            if token in self._eos_ids:
                self._close("eos")
                return
            self._take(token)
            if self.done:
                return
            row = len(self.ids) - start

    def _guessed(self, room: int) -> list[int]:
        """Tokens to compute ahead: within the step's `room`, what may still be sampled and what the grammar allows."""
        if self._lookup is None:
            return []
        left = min(self._max_tokens - self._num_sampled, self._context_tokens - len(self.ids)) - 1
        promised = self.lease.reserved - (len(self.ids) - count(self.lease.runs))
        guess = self._lookup.guess(self.ids, min(room, left, promised))
        if guess and self._matcher is not None:
            return guess[: self._matcher.num_allowed(guess)]
        return guess

    def _forget_guess(self) -> None:
        """Give back what was computed for guessed tokens that were not sampled."""
        if not self._guess:
            return
        assert self._lookup is not None, "a guess without a lookup"
        num_right = common_prefix(self._guess, self.ids[self.num_computed - len(self._guess) :])
        self._lookup.count(len(self._guess), num_right)
        self._settle_ahead(len(self._guess), num_right)
        self._guess = []

    def expire(self) -> None:
        self._close("deadline")

    def _pick(self, logits: Row) -> int:
        allowed = self._matcher.allowed() if self._matcher is not None else None
        return self._sampler.pick(logits[: self._vocabulary_size], allowed)

    def _take(self, token: int) -> None:
        """Append a sampled token, and what the grammar forces after it."""
        self.ids.append(token)
        text = self._stream.feed(self._token_bytes(token))
        if self._stream.stop is not None:
            self._close("stop", text, (token,))
            return
        if self._matcher is not None:
            self._matcher.accept(token)
            self._follow_grammar(text, (token,))
        else:
            self._give(text, (token,))
        if not self.done and (self._num_sampled >= self._max_tokens or len(self.ids) >= self._context_tokens):
            self._close("length")

    def _follow_grammar(self, text: str = "", token_ids: tuple[int, ...] = ()) -> None:
        """Append what is forced; `text` and `token_ids` were just sampled and go out with it."""
        while self._matcher is not None:
            forced = self._matcher.forced()
            if forced.ends:
                text += self._stream.feed(forced.remainder)
                self._close("stop" if self._stream.stop is not None else "grammar", text, token_ids)
                return
            if not forced.token_ids:
                break
            if not self._has_room(len(forced.token_ids)):
                self._close("length", text, token_ids)
                return
            self._matcher.accept(*forced.token_ids)
            self.ids.extend(forced.token_ids)
            token_ids += forced.token_ids
            text += self._stream.feed(b"".join(map(self._token_bytes, forced.token_ids)))
            if self._stream.stop is not None:
                self._close("stop", text, token_ids)
                return
        self._give(text, token_ids)

    def _has_room(self, num_forced: int) -> bool:
        """Whether forced tokens fit, in the context and, once admitted, in the cache."""
        if len(self.ids) + num_forced >= self._context_tokens:
            return False
        return self._lease is None or self.cache.reserve(self.lease, num_forced)

    def _give(self, text: str, token_ids: tuple[int, ...]) -> None:
        if text or token_ids:
            self._mailbox.put(Chunk(text=text, token_ids=token_ids))

    def _close(self, finish: FinishReason, text: str = "", token_ids: tuple[int, ...] = ()) -> None:
        if self.done:
            raise EngineError("a completion ended twice")
        self.ended_turn = True
        if self._lease is not None:
            self._forget_guess()
            self._keep()
            self._save_end()
        self._finish(
            Chunk(
                text=text + self._stream.flush(),
                token_ids=token_ids,
                finish=finish,
                stop=self._stream.stop,
                usage=self._usage(self._num_sampled),
            )
        )
