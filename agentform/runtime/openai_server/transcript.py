"""From a prompt's token ids back to the messages that they spell: the server has the chat template, and wants messages.

::

    <|im_start|>system\n…<|im_end|>\n<|im_start|>user\n…<|im_end|>\n<|im_start|>assistant\nNext step:
    └───────────────────────────── messages ─────────────────────────────┘                 └─ begun ─┘
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer

__all__ = ["Transcript", "read_transcript"]


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """A conversation, and what the assistant's next message begins with."""

    messages: tuple[tuple[str, str], ...]
    """Role and text of each."""
    begun: str


def read_transcript(prompt_ids: Sequence[int]) -> Transcript:
    """The conversation that `ByteTokenizer` rendered; text outside of messages is the user's."""
    parts = list(_parts(prompt_ids))
    begun = ""
    if parts and not parts[-1].ended and parts[-1].role == "assistant":
        begun = parts.pop().text
    return Transcript(messages=tuple((part.role, part.text) for part in parts if part.ended or part.text), begun=begun)


@dataclass(frozen=True)
class _MessageText:
    role: str
    text: str
    ended: bool


def _parts(ids: Sequence[int]) -> Iterator[_MessageText]:
    at, end = 0, len(ids)
    while at < end:
        starts = ids[at] == ByteTokenizer.START
        until = next((i for i in range(at + starts, end) if ids[i] >= ByteTokenizer.START), end)
        text = bytes(ids[at + starts : until]).decode(errors="replace")
        role, _, text = text.partition("\n") if starts else ("user", "", text)
        ended = until < end and ids[until] == ByteTokenizer.END
        if starts or text.strip():  # the line's end after a message is the template's
            yield _MessageText(role, text, ended)
        at = until + ended
