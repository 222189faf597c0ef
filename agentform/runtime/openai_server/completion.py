"""A completion in progress: chunks of a chat completion go in, chunks with the meaning of the engine seam come out.

Stop strings are found here, since a server does not say which of its stops ended a text. Text becomes token ids as
`ByteTokenizer` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentform.messages import Usage
from agentform.runtime.detokenizer import TextStream
from agentform.runtime.engine import Chunk, FinishReason, GenerateRequest
from agentform.runtime.openai_server.bodies import ChatRequest

__all__ = ["ChatCompletionStream"]


class ChatCompletionStream:
    """Not thread-safe."""

    def __init__(self, request: GenerateRequest, asked: ChatRequest) -> None:
        self._request = request
        self._asked = asked
        spec = request.grammar
        self._lead, self._follow = (spec.lead, spec.follow) if spec is not None else ("", "")
        self._text = TextStream(request.stop)
        self._held = ""
        """The text of a value that is told whole."""
        self._begun = False
        self._num_pieces = 0
        self._usage: Mapping[str, Any] = {}
        self._finish: str | None = None
        self.done = False

    @property
    def is_finished(self) -> bool:
        """Whether the server said how it ended."""
        return self._finish is not None

    def feed(self, event: Mapping[str, Any]) -> Chunk | None:
        """What an event adds; the last chunk comes from `ended`, or at once where a stop string is complete."""
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
            piece = (choice.get("delta") or {}).get("content") or ""
            if not isinstance(piece, str):
                raise TypeError(f"content is no text: {piece!r}")
            if piece:
                return self._piece(piece)
        return None

    def ended(self) -> Chunk:
        """The last chunk, once the server's stream is over."""
        if self._finish == "length":
            return self._close("length", self._opened(self._asked.begun_text(self._held)) + self._text.flush())
        if self._request.grammar is None:
            return self._close("eos", self._text.flush())
        text = self._asked.value_text(self._held) if self._asked.is_told_whole else ""
        return self._close("grammar", self._opened(text) + self._text.flush() + self._follow)

    def unasked(self) -> Chunk:
        """The only chunk of a completion of no tokens."""
        return self._close("length", "")

    def expire(self) -> Chunk:
        """The last chunk of a completion whose deadline has come."""
        return self._close("deadline", "")

    def _piece(self, piece: str) -> Chunk | None:
        self._num_pieces += 1
        if self._asked.is_told_whole:
            self._held += piece
            return None
        text = self._opened(self._text.feed(piece.encode(errors="replace")))
        if self._text.stop is not None:
            return self._close("stop", text)
        return Chunk(text=text, token_ids=tuple(text.encode())) if text else None

    def _opened(self, text: str) -> str:
        """The text, after what heals the end of the prompt where it is the first."""
        lead, self._begun = "" if self._begun else self._lead, True
        return lead + text

    def _close(self, finish: FinishReason, text: str) -> Chunk:
        self.done = True
        stop = self._text.stop if finish == "stop" else None
        return Chunk(text=text, token_ids=tuple(text.encode()), finish=finish, stop=stop, usage=self._used())

    def _used(self) -> Usage:
        """As the server counts; of a stream that was left before its end, the pieces that came."""
        said = self._usage
        cached = (said.get("prompt_tokens_details") or {}).get("cached_tokens")
        return Usage(
            prompt_tokens=int(said.get("prompt_tokens") or len(self._request.prompt_ids)),
            cached_tokens=None if cached is None else int(cached),
            restored_tokens=None,
            replayed_tokens=None,
            computed_tokens=None,
            completion_tokens=int(said.get("completion_tokens") or self._num_pieces),
        )
