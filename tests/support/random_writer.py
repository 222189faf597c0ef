"""Writes a form with random choices, its free leaves by random tokens under their grammars."""

from __future__ import annotations

import json
from random import Random

import numpy as np

from agentform.errors import ArgumentsTruncated, Relaxation
from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.schema.form import Choice, Fixed, Free, Node, Record, Repeat, Subset, Union, pointer
from agentform.schema.json_text import dumps, loads
from agentform.schema.partial import Known, Rules

__all__ = ["RandomWriter"]

_TRIES = 30
_CLOSING = frozenset('"]},.0123456789')


class RandomWriter:
    """One tokenizer's compiler and a source of chance."""

    def __init__(self, compiler: Compiler, tokenizer, random: Random, *, max_tokens: int = 300) -> None:
        self._compiler = compiler
        self._tokenizer = tokenizer
        self._random = random
        self._max_tokens = max_tokens
        self.relaxed: list[Relaxation] = []
        """What the grammars used so far did not enforce."""

    def form(self, node: Node) -> str:
        """The JSON text; raises ArgumentsTruncated when a free leaf came to no end."""
        match node:
            case Fixed():
                return dumps(node.value)
            case Choice():
                return dumps(self._random.choice(node.options))
            case Union():
                return self.form(self._random.choice(node.arms))
            case Subset() | Repeat():
                return self._list(node)
            case Record():
                return self._record(node)
            case Free():
                return self.value(json.dumps(node.schema), pointer(node.path))

    def value(self, schema: str, where: str = "") -> str:
        """A text of the schema's whole grammar."""
        compiled = self._compiler.compile(GrammarSpec(kind="json_schema", text=schema))
        self.relaxed += compiled.relaxed
        matcher = compiled.matcher()
        ids: list[int] = []
        for _ in range(self._max_tokens):
            forced = matcher.forced()
            if forced.ends or (matcher.is_complete() and self._random.random() < 0.5):
                return (b"".join(map(self._tokenizer.token_bytes, ids)) + forced.remainder).decode()
            chosen = forced.token_ids or (self._pick(matcher.allowed(), len(ids)),)
            matcher.accept(*chosen)
            ids += chosen
        raise ArgumentsTruncated(pointer=where, written=self._tokenizer.decode(ids), max_tokens=self._max_tokens)

    def _list(self, node: Subset | Repeat) -> str:
        """A list that keeps the rules for it, if chance finds one."""
        text = self._any_list(node)
        for _ in range(_TRIES if node.rules else 0):
            if Rules(node.rules or {}).verdict(Known(loads(text))):
                return text
            text = self._any_list(node)
        self.relaxed += [Relaxation(pointer=pointer(node.path), what="rules")] if node.rules else []
        return text

    def _any_list(self, node: Subset | Repeat) -> str:
        if isinstance(node, Subset):
            size = self._random.randint(node.min_items, node.max_items)
            return dumps(self._random.sample(node.options, size))
        size = self._random.randint(node.min_items, len(node.items))
        return f"[{', '.join(map(self.form, node.items[:size]))}]"

    def _record(self, node: Record) -> str:
        fields = [field for field in node.fields if field.required or self._random.random() < 0.5]
        return "{" + ", ".join(f"{dumps(field.name)}: {self.form(field.node)}" for field in fields) + "}"

    def _pick(self, allowed, num_written: int) -> int:
        """Any legal token; the longer the text, the rather one that brings it to an end."""
        ids = [token for token in np.flatnonzero(allowed).tolist() if token not in self._tokenizer.eos_ids]
        assert ids, "a grammar that is not complete leaves a token"
        if self._random.random() < num_written / 40:
            ends = [token for token in ids if set(self._tokenizer.decode((token,))) <= _CLOSING]
            return self._random.choice(ends or ids)
        return self._random.choice(ids)
