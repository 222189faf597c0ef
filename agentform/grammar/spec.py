"""What a request asks to be enforced, as plain data that any engine can take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["GrammarSpec"]


@dataclass(frozen=True, kw_only=True)
class GrammarSpec:
    """A constraint on generated text.

    The text generated is `lead + value + follow`, where `value` matches the grammar. `lead` heals the token
    boundary at the end of the prompt; `follow` lets the model close a value with a token that reaches beyond it
    (`",` is one token in many vocabularies). Generation ends as soon as what remains is forced, and the forced
    remainder is appended to the text without being sampled.
    """

    kind: Literal["json_schema", "regex", "lark"]
    text: str
    """JSON Schema as JSON text, a regular expression, or a Lark grammar as llguidance reads it."""
    lead: str = ""
    follow: str = ""
    owner: str = ""
    """For whom it is compiled and kept: whether somebody else uses it too is not to be told from the time it takes."""
