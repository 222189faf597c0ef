"""A grammar in the words of SGLang's sampling parameters, for the grammar backend that a server runs."""

from __future__ import annotations

import json
from typing import Any

from agentform.errors import GrammarError
from agentform.grammar.compile import CompiledGrammar, parse_schema
from agentform.grammar.prepare import prepare
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.xgrammar_schema import adapt

__all__ = ["llguidance_params", "xgrammar_params"]


def llguidance_params(grammar: CompiledGrammar) -> dict[str, str]:
    """For `--grammar-backend llguidance`, which reads every grammar that agentform makes.

    It reads the parameter `ebnf` as Lark, and so gets the very text that compiled here: lead, value and follow in one
    grammar, and a schema without what llguidance does not enforce.
    """
    return {"ebnf": grammar.lark}


def xgrammar_params(spec: GrammarSpec) -> dict[str, str]:
    """For `--grammar-backend xgrammar`, SGLang's default: a structural tag of lead, value and follow.

    Raises:
        GrammarError: for Lark text, which that backend does not read.
    """
    around = [({"type": "const_string", "value": text} if text else None) for text in (spec.lead, spec.follow)]
    parts = [part for part in (around[0], _xgrammar_value(spec), around[1]) if part is not None]
    content = {"type": "sequence", "elements": parts} if len(parts) > 1 else parts[0]
    return {"structural_tag": json.dumps({"type": "structural_tag", "format": content}, ensure_ascii=False)}


def _xgrammar_value(spec: GrammarSpec) -> dict[str, Any]:
    if spec.kind == "regex":
        return {"type": "regex", "pattern": spec.text}
    if spec.kind == "json_schema":
        schema, _ = adapt(prepare(parse_schema(spec.text), "xgrammar").schema)
        return {"type": "json_schema", "json_schema": schema}
    raise GrammarError(
        "SGLang's xgrammar backend does not read Lark grammars; start the server with --grammar-backend llguidance"
    )
