"""Strings that their greatest length would end in mid-word end at the word before.

::

    maxLength 14:  "The parcel arr"  ──▶  one token without a grammar: "ived" goes on with the word  ──▶  "The parcel"
                                          ". " or " and" do not, nor is the text cut if the schema refuses what is left
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from contextlib import aclosing

from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext
from agentform.schema.form import Free
from agentform.schema.json_text import loads
from agentform.schema.validate import SchemaValidator

__all__ = ["before_last_word", "ended_at_word", "may_end_in_word"]

_PLAIN = frozenset({"type", "minLength", "maxLength", "pattern", "title", "description", "default", "examples"})
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Thai, Lao, Burmese and Khmer."""


def may_end_in_word(leaf: Free) -> bool:
    """Whether the leaf is a plain string that its greatest length may cut off."""
    schema = leaf.schema
    return (
        isinstance(schema, Mapping) and schema.get("type") == "string" and "maxLength" in schema and {*schema} <= _PLAIN
    )


def before_last_word(text: str) -> str:
    """The text without the last word and the spaces before it; empty where there is only one."""
    return text[: text.rfind(" ") + 1].rstrip(" ")


async def ended_at_word(session: Session, context: TokenContext, leaf: Free, json_text: str) -> str | None:
    """The leaf's JSON text, cut where its last word began, if the model was about to go on with that word.

    `None` where the text stays as it is. It takes one token, where the text is as long as it may be.

    Raises:
        EngineError: the engine cannot serve the request.
    """
    value = loads(json_text) if may_end_in_word(leaf) and session.engine.info.scores else None
    if not isinstance(value, str) or not isinstance(leaf.schema, Mapping) or len(value) != leaf.schema["maxLength"]:
        return None
    written = json_text.rstrip()[:-1]
    cut = before_last_word(written) + '"'
    if len(cut) <= len('""') or not _is_in_word(value[-1]) or SchemaValidator(dict(leaf.schema)).check(loads(cut)):
        return None
    following = await _next_text(session, context.with_text(written))
    return cut if _is_in_word(following[:1]) else None


async def _next_text(session: Session, context: TokenContext) -> str:
    """What the model would write next: one token, without a grammar."""
    text, prompt_ids = "", context.token_ids(session.tokenizer)
    async with aclosing(session.generate(prompt_ids, max_tokens=1)) as chunks:
        async for chunk in chunks:
            text += chunk.text
    return text


def _is_in_word(character: str) -> bool:
    """Whether it belongs to a word of a script that puts spaces between words."""
    return bool(
        character.isalnum()
        and unicodedata.east_asian_width(character) not in "WF"
        and not _WITHOUT_SPACES.match(character)
    )
