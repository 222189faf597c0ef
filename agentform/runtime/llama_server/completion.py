"""A completion in progress: events of llama.cpp's server go in, chunks with the meaning of the engine seam come out.

A grammar is followed here, token by token, whatever the server makes of it. A token that the grammar does not allow is
`refused`: of those that it allows one is drawn in its place, and the server goes on from there. What is drawn so has
the probabilities that a masked softmax has: a token that is allowed is kept, and one that is not is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from agentform.grammar.matcher import Matcher
from agentform.messages import Usage
from agentform.runtime.detokenizer import TextStream
from agentform.runtime.engine import Chunk, FinishReason, GenerateRequest
from agentform.runtime.llama_server.scores import listed_logprobs

__all__ = ["LlamaCompletion"]


class LlamaCompletion:
    """Not thread-safe."""

    def __init__(
        self,
        request: GenerateRequest,
        *,
        token_bytes: Callable[[int], bytes],
        eos_ids: Collection[int],
        matcher: Matcher | None,
        most_tokens: int,
    ) -> None:
        self._request = request
        self._token_bytes = token_bytes
        self._eos_ids = eos_ids
        self._text = TextStream(request.stop)
        self._left = most_tokens
        self._num_sampled = 0
        self._timings: list[Mapping[str, Any]] = []
        """The last of every stream so far."""
        self.matcher = matcher
        self.written: list[int] = []
        self.refused: Mapping[int, float] | None = None
        """At a token that the grammar does not allow: the log probabilities that were listed in its place."""
        self.lost = 0
        """Tokens that a stream went past without naming them, and the one after them."""
        self._num_told = 0
        """Tokens of the current stream."""
        self.done = False

    @property
    def goes_on(self) -> bool:
        """Whether the current stream may be followed further."""
        return not self.done and self.refused is None and not self.lost

    @property
    def left(self) -> int:
        """Tokens that may still be written."""
        return self._left - self._num_sampled

    def begin(self) -> Chunk | None:
        """The whole completion, if the grammar leaves no choice from its start.

        Raises:
            GrammarError: the matcher stops with an error.
        """
        return self._end_of_grammar("", [])

    def begin_stream(self) -> None:
        """The server is asked to go on."""
        self.refused, self.lost, self._num_told = None, 0, 0
        self._timings.append({})

    def feed(self, event: Mapping[str, Any]) -> Chunk | None:
        """What an event, or a whole reply, adds; the last chunk has a finish. Nothing is fed after `refused` or `lost`.

        Raises:
            GrammarError: the matcher stops with an error.
        """
        if event.get("timings"):
            self._timings[-1] = event["timings"]
        ids = list(map(int, event.get("tokens") or ()))
        self.lost = self._lost(event, len(ids))
        if self.lost:
            return None
        text, taken = "", list[int]()
        for token in ids:
            if self._is_refused(token):
                self.refused = listed_logprobs(event) if event.get("completion_probabilities") else {}
                break
            if (last := self._accept(token, text, taken)) is not None:
                return last
            text += self._text.feed(self._token_bytes(token))
            if self._text.stop is not None:
                return self._close("stop", text, taken)
            if (last := self._end_of_grammar(text, taken)) is not None:
                return last
        if self.refused is None and (event.get("stop_type") == "eos" or self.left <= 0):
            return self._close("eos" if event.get("stop_type") == "eos" else "length", text, taken)
        return Chunk(text=text, token_ids=tuple(taken)) if taken else None

    def put(self, token: int) -> Chunk | None:
        """Go on with a token that was drawn here in the place of a refused one.

        Raises:
            GrammarError: the matcher stops with an error.
        """
        self.refused = None
        return self.feed({"tokens": [token]})

    def expire(self) -> Chunk:
        """The last chunk of a completion whose deadline has come."""
        return self._close("deadline", "", [])

    def warmed(self, timings: Mapping[str, Any]) -> Chunk:
        """The last chunk of a completion of no tokens."""
        self._timings = [timings]
        return self._close("length", "", [])

    def _lost(self, event: Mapping[str, Any], num: int) -> int:
        so_far = event.get("tokens_predicted")
        if so_far is None:
            return 0
        fresh, self._num_told = int(so_far) - self._num_told, int(so_far)
        return fresh if fresh > num else 0

    def _is_refused(self, token: int) -> bool:
        if self.matcher is None:
            return False
        if token in self._eos_ids:
            return not self.matcher.is_complete()
        return self.matcher.num_allowed([token]) == 0

    def _accept(self, token: int, text: str, taken: list[int]) -> Chunk | None:
        """Take a token; the last chunk if it ends the turn."""
        self._num_sampled += 1
        if token in self._eos_ids:
            return self._close("eos", text, taken)
        taken.append(token)
        self.written.append(token)
        if self.matcher is not None:
            self.matcher.accept(token)
        return None

    def _end_of_grammar(self, text: str, taken: list[int]) -> Chunk | None:
        """The last chunk, with the text that is all that remains, if the grammar leaves no choice any more."""
        forced = self.matcher.forced() if self.matcher is not None else None
        if forced is None or not forced.ends:
            return None
        text += self._text.feed(forced.remainder)
        return self._close("stop" if self._text.stop is not None else "grammar", text, taken)

    def _close(self, finish: FinishReason, text: str, taken: list[int]) -> Chunk:
        self.done = True
        return Chunk(
            text=text + self._text.flush(),
            token_ids=tuple(taken),
            finish=finish,
            stop=self._text.stop,
            usage=self._usage(),
        )

    def _usage(self) -> Usage:
        """What the server did not say, since it was not asked or left before, is unknown."""
        cached = self._timings[0].get("cache_n") if self._timings else None
        read = [timing.get("prompt_n") for timing in self._timings]
        known = bool(read) and None not in read
        computed = sum(int(num or 0) for num in read) + max(self._num_sampled - len(read), 0) if known else None
        return Usage(
            prompt_tokens=len(self._request.prompt_ids),
            cached_tokens=None if cached is None else int(cached),
            restored_tokens=None,
            replayed_tokens=None,
            computed_tokens=computed,
            completion_tokens=self._num_sampled,
        )
