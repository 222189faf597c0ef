"""A tokenizer without a vocabulary file: bytes, and the two control tokens of ChatML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["ByteTokenizer"]

_CONTROL = ("<|im_start|>", "<|im_end|>")
_SPELT = re.compile("(" + "|".join(map(re.escape, _CONTROL)) + ")")


class ByteTokenizer:
    """Ids 0 to 255 are bytes; 256 is ``<|im_start|>`` and 257 ``<|im_end|>``.

    With `tool_template` its chat template renders tools, calls and results, as Qwen's does.
    """

    START, END = 256, 257
    vocabulary_size = 258

    def __init__(self, *, tool_template: bool = False) -> None:
        self._tool_template = tool_template
        self.learned: dict[str, Any] = {}
        self.template_arguments: dict[str, Any] = {}

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end an assistant turn."""
        return frozenset({self.END})

    @property
    def control_ids(self) -> frozenset[int]:
        """Ids that text never becomes."""
        return frozenset({self.START, self.END})

    @property
    def has_tool_template(self) -> bool:
        """Whether the chat template itself renders tools and tool calls."""
        return self._tool_template

    @property
    def template_source(self) -> str:
        """Empty: it is no Jinja template."""
        return ""

    def encode(self, text: str, *, control: bool = False) -> tuple[int, ...]:
        """Token ids of `text`; a spelt control token is data unless `control` is true."""
        if not control:
            return tuple(text.encode())
        pieces = _SPELT.split(text)
        return tuple(i for piece in pieces for i in (self._control(piece) or piece.encode()))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, control tokens spelt out; incomplete UTF-8 becomes U+FFFD."""
        spelt = (bytes([i]) if i < self.START else _CONTROL[i - self.START].encode() for i in ids)
        return b"".join(spelt).decode(errors="replace")

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        """Token ids of the ChatML conversation; what messages and tools spell is data."""
        ids: list[int] = []
        for text, control in self._pieces(messages, tools, generation_prompt):
            ids += self.encode(text, control=control)
        return tuple(ids)

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The conversation as text; `render` gives its ids."""
        return "".join(text for text, _ in self._pieces(messages, tools, generation_prompt))

    def _control(self, piece: str) -> tuple[int, ...]:
        return (self.START + _CONTROL.index(piece),) if piece in _CONTROL else ()

    def _pieces(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, prompt: bool
    ) -> Iterator[tuple[str, bool]]:
        """Texts, and whether each was written by the template itself."""
        if tools and self._tool_template:
            listing = "# Tools\n" + "\n".join(map(_json, tools))
            yield from self._turn({"role": "system", "content": listing})
        for message in messages:
            yield from self._turn(message)
        if prompt:
            yield "<|im_start|>assistant\n", True

    def _turn(self, message: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
        content = message.get("content") or ""
        calls = [_call_text(call) for call in message.get("tool_calls") or ()] if self._tool_template else []
        yield f"<|im_start|>{message['role']}\n", True
        yield "\n".join(part for part in (content, *calls) if part), False
        yield "<|im_end|>\n", True


def _call_text(call: Mapping[str, Any]) -> str:
    function = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
    return f"<tool_call>\n{_json(function)}\n</tool_call>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
