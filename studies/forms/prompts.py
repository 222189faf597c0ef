"""Ways of asking: what the prompt tells of the form, and what stands before each option."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agentform.decoding.token_context import TokenContext
from agentform.decoding.tool_format import argument_lines
from agentform.forms.answer import Question
from agentform.forms.questions import open_questions
from agentform.forms.state import FormState
from agentform.messages import Message
from agentform.runtime.engine import Tokenizer
from agentform.schema.json_text import dumps
from benchmarks.common.items import Item

__all__ = ["LEADS", "PROMPTS", "context_of", "questions_of"]


def context_of(
    tokenizer: Tokenizer, item: Item, prompt: str, messages: Sequence[Message] | None = None
) -> TokenContext:
    """Where the item's form begins, after its own messages or those given instead."""
    said = [{"role": m.role, "content": m.content} for m in (messages or item.messages)]
    return TokenContext(ids=tokenizer.render(PROMPTS[prompt](item, said)))


def questions_of(item: Item, lead: str) -> list[Question]:
    """One question per field, independent of one another."""
    asked = open_questions(FormState(root=item.target.form.root))
    return [LEADS[lead](question) for question in asked]


_Said = list[dict[str, str]]


def _bare(item: Item, said: _Said) -> _Said:
    return said


def _about(item: Item, said: _Said) -> _Said:
    return _with_system(_instruction(item), said)


def _purpose(item: Item, said: _Said) -> _Said:
    return _with_system(item.about, said) if item.about else said


def _names(item: Item, said: _Said) -> _Said:
    lines = "\n".join(f"- {f.name}: {f.description}" for f in item.fields)
    return _with_system(f"{_instruction(item)}\n{lines}", said)


def _options(item: Item, said: _Said) -> _Said:
    return _with_system(f"{_instruction(item)}\n{argument_lines(item.target.form)}", said)


def _after(item: Item, said: _Said) -> _Said:
    lines = f"{said[-1]['content']}\n\n{_instruction(item)}\n{argument_lines(item.target.form)}"
    return [*said[:-1], {**said[-1], "content": lines}]


def _one_text(item: Item, said: _Said) -> _Said:
    if len(said) == 1:
        return said
    lines = "\n".join(f"{message['role'].title()}: {message['content']}" for message in said)
    return [{"role": "user", "content": lines}]


def _with_system(text: str, said: _Said) -> _Said:
    own = [message["content"] for message in said if message["role"] == "system"]
    return [{"role": "system", "content": "\n".join([*own, text])}, *(m for m in said if m["role"] != "system")]


def _instruction(item: Item) -> str:
    about = item.about or f"Fill in the form '{item.form}' from the conversation."
    return f"{about}\nAnswer with JSON."


PROMPTS: Mapping[str, Callable[[Item, _Said], _Said]] = {
    "bare": _bare,
    "purpose": _purpose,
    "about": _about,
    "names": _names,
    "options": _options,
    "after": _after,
    "one_text": _one_text,
}
"""bare: the conversation alone, the template's own system message. purpose: the form's own description as system
message, bare where it has none. about: that, or a stock sentence for it, and "Answer with JSON.". names: that and the
fields with their descriptions. options: that and the options of each. after: the same listing at the end of the user's
message. one_text: bare, the whole conversation in one user message."""


def _described(question: Question) -> Question:
    return replace(question, lead=f"{question.description}:\n{question.lead}")


def _plain(question: Question) -> Question:
    texts = (f" {a if isinstance(a, str) else dumps(a)}\n" for a in question.answers)
    return replace(question, lead=f"{'.'.join(question.path)}:", texts=tuple(texts))


LEADS: Mapping[str, Callable[[Question], Question]] = {
    "key": lambda question: question,
    "anchor": lambda question: replace(question, lead=f"Answer:\n{question.lead}"),
    "described": _described,
    "plain": _plain,
}
"""key: the JSON key alone. anchor: one fixed line before it. described: the field's description as that line.
plain: `name: option` without JSON."""
