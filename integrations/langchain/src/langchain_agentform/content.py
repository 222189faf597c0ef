"""The text of LangChain content: strings and lists of content blocks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_agentform.errors import UnsupportedContent

__all__ = ["require_no_media", "text_of"]

_MEDIA = {
    "audio",
    "document",
    "file",
    "image",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "media",
    "video",
}
_MEDIA_KEYS = {"base64", "data", "file", "file_id", "image_url", "input_audio", "source", "url"}
_TEXT = {"text", "text-plain", "input_text", "output_text"}


def text_of(content: str | Iterable[str | Mapping[str, Any]], where: str) -> str:
    """All text of a message's content; blocks that hold data of another kind are written as JSON.

    Raises:
        UnsupportedContent: a block is an image, audio, a video or a file; `where` says whose.
    """
    if isinstance(content, str):
        return content
    return "".join(block if isinstance(block, str) else _block_text(block, where) for block in content)


def _block_text(block: Mapping[str, Any], where: str) -> str:
    if block.get("type") in _TEXT:
        return str(block.get("text", ""))
    require_no_media(block, where)
    return json.dumps(block, ensure_ascii=False, default=str)


def require_no_media(block: Mapping[str, Any], where: str) -> None:
    """Check that a block is not one of media.

    Raises:
        UnsupportedContent: it is.
    """
    kind = block.get("type")
    if kind in _MEDIA and _MEDIA_KEYS & block.keys():
        raise UnsupportedContent(
            f"{where} holds content of type {kind!r}; agentform reads text only, so describe it in a text block"
        )
