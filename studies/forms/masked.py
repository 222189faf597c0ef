"""Writing instead of choosing: greedy decoding of the same JSON under a grammar, on the same engine.

Two grammars. Over text, as JSON Schema grammars are: any token that begins a legal text may be taken, also one that
the tokenizer would never use there. Over tokens: each option exactly as the tokenizer writes it, as scoring sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentform.decoding.token_context import TokenContext
from agentform.errors import EngineError
from agentform.forms.answer import Question
from agentform.forms.option_trie import option_lines
from agentform.grammar.spec import GrammarSpec
from agentform.messages import JsonValue, Usage
from agentform.runtime.engine import Engine, GenerateRequest
from agentform.schema.json_text import dumps, loads
from benchmarks.common.items import ClosedField, Item

__all__ = ["decode", "decode_leaf", "decode_tokens"]

_MAX_TOKENS = 400


async def decode(
    engine: Engine, context: TokenContext, item: Item, *, before: str = ""
) -> tuple[dict[str, JsonValue], Usage]:
    """The whole object in declared order; `before` is text that stands between the prompt and the JSON.

    The grammar starts where scoring starts, so that both see the same tokens before the first option.
    """
    text, usage = await _complete(engine, context, GrammarSpec(kind="json_schema", text=_schema(item), lead=before))
    value = loads(text.removeprefix(before))
    assert isinstance(value, Mapping)
    return dict(value), usage


async def decode_leaf(engine: Engine, context: TokenContext, item: Item, index: int, *, before: str = "") -> int:
    """One leaf in an object of its own, as independent scoring asks it; the index of the option written."""
    leaf = item.fields[index]
    value, _ = await decode(engine, context, replace(item, fields=(leaf,)), before=before)
    return _index(leaf, value[leaf.name])


async def decode_tokens(engine: Engine, context: TokenContext, question: Question) -> int:
    """The same under a grammar of whole tokens; the index of the option written."""
    lines = option_lines(engine.tokenizer, context.line(question.lead), question.texts)
    spelt = (" ".join(f"<[{token}]>" for token in line) for line in lines)
    text, _ = await _complete(engine, context, GrammarSpec(kind="lark", text=f"start: {' | '.join(spelt)}"))
    written = [index for index, line in enumerate(lines) if engine.tokenizer.decode(line) == text]
    assert len(written) == 1, f"{text!r} is not one of the options"
    return question.groups[written[0]]


def _index(leaf: ClosedField, value: JsonValue) -> int:
    """Not by `==`, for which 1 is true."""
    return [dumps(option) for option in leaf.options].index(dumps(value))


async def _complete(engine: Engine, context: TokenContext, grammar: GrammarSpec) -> tuple[str, Usage]:
    """Greedy completion under the grammar: its text and usage.

    Raises:
        EngineError: the completion was cut off.
    """
    request = GenerateRequest(prompt_ids=context.ids, max_tokens=_MAX_TOKENS, grammar=grammar)
    text, finish, usage = "", None, Usage()
    async for chunk in engine.generate(request):
        text += chunk.text
        finish = chunk.finish or finish
        usage = chunk.usage or usage
    if finish not in ("grammar", "eos"):
        raise EngineError(f"a completion of at most {_MAX_TOKENS} tokens ended by {finish}")
    return text, usage


def _schema(item: Item) -> str:
    properties: dict[str, JsonValue] = {f.name: {"enum": list(f.options)} for f in item.fields}
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties, "additionalProperties": False}
    return dumps({**schema, "required": list(properties)})
