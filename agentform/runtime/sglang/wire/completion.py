"""A completion in progress: SGLang's replies go in, chunks come out with the meaning that the engine seam gives them.

Where a completion ends is decided here, over the bytes of its tokens, exactly as the embedded engine does it. SGLang
may run a token or two further; the caller aborts the request when `done`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from agentform.errors import EngineError
from agentform.grammar.matcher import Matcher
from agentform.runtime.detokenizer import TextStream
from agentform.runtime.engine import Chunk, FinishReason, GenerateRequest
from agentform.runtime.sglang.wire.replies import completion_usage, raise_if_aborted

__all__ = ["Completion"]


class Completion:
    """Not thread-safe. `matcher` follows the grammar beside SGLang, where both read it alike."""

    def __init__(
        self,
        request: GenerateRequest,
        *,
        token_bytes: Callable[[int], bytes],
        eos_ids: Collection[int],
        matcher: Matcher | None = None,
    ) -> None:
        self._request = request
        self._token_bytes = token_bytes
        self._eos_ids = eos_ids
        self._matcher = matcher
        self._stream = TextStream(request.stop)
        self._meta: Mapping[str, Any] | None = None
        self._num_sampled = 0
        self.done = False

    def begin(self) -> Chunk | None:
        """The whole completion, if the grammar leaves no choice from its start.

        Raises:
            GrammarError: the grammar does not compile, or its matcher stops with an error.
        """
        return self._end_of_grammar("", [])

    def feed(self, reply: Mapping[str, Any]) -> Chunk | None:
        """What one reply adds; the last chunk has a finish.

        `output_ids` may hold all tokens so far or only new ones: `completion_tokens` tells how many are new.

        Raises:
            GrammarError: the grammar does not compile, or its matcher stops with an error.
            InvalidRequest: the request is malformed, such as a token id outside the vocabulary.
            CacheBudgetExceeded: the request needs more than the budget, even with all else evicted.
            EngineError: SGLang gave the request up.
        """
        raise_if_aborted(reply)
        meta: Mapping[str, Any] = reply.get("meta_info") or {}
        ids: Sequence[int] = reply.get("output_ids") or ()
        num_new = int(meta.get("completion_tokens", self._num_sampled + len(ids))) - self._num_sampled
        if num_new > len(ids):
            raise EngineError(f"SGLang sent {len(ids)} of {num_new} new tokens")
        self._meta = meta
        return self._take(ids[len(ids) - num_new :], meta.get("finish_reason"))

    def expire(self) -> Chunk:
        """The last chunk of a completion whose deadline has come."""
        return self._close("deadline", "", [])

    def _take(self, ids: Sequence[int], reason: Mapping[str, Any] | None) -> Chunk | None:
        text, taken = "", []
        for token in ids:
            self._num_sampled += 1
            if token in self._eos_ids:
                return self._close("eos", text, taken)
            taken.append(token)
            text += self._stream.feed(self._token_bytes(token))
            if self._stream.stop is not None:
                return self._close("stop", text, taken)
            if self._matcher is not None:
                self._matcher.accept(token)
                if (last := self._end_of_grammar(text, taken)) is not None:
                    return last
        if reason is not None:
            return self._close(_finish_of(reason), text, taken)
        return Chunk(text=text, token_ids=tuple(taken)) if taken else None

    def _end_of_grammar(self, text: str, taken: list[int]) -> Chunk | None:
        """The last chunk, with the text that is all that remains, if the grammar leaves no choice any more."""
        forced = self._matcher.forced() if self._matcher is not None else None
        if forced is None or not forced.ends:
            return None
        text += self._stream.feed(forced.remainder)
        return self._close("stop" if self._stream.stop is not None else "grammar", text, taken)

    def _close(self, finish: FinishReason, text: str, taken: list[int]) -> Chunk:
        self.done = True
        return Chunk(
            text=text + self._stream.flush(),
            token_ids=tuple(taken),
            finish=finish,
            stop=self._stream.stop,
            usage=completion_usage(len(self._request.prompt_ids), self._meta, num_sampled=self._num_sampled),
        )


def _finish_of(reason: Mapping[str, Any]) -> FinishReason:
    """SGLang's reason where nothing here ended the completion; it, too, knows ids that end a sequence."""
    return "length" if reason.get("type") == "length" else "eos"
