"""Grammars over a tiny tokenizer, shared by the tests that look at what a schema's grammar takes."""

from __future__ import annotations

import json

import pytest

from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import write_tiny_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="session")
def compiler(tokenizer):
    return Compiler(Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids))


@pytest.fixture(scope="session")
def takes(compiler, tokenizer):
    """Whether the grammar of a schema takes a text as a whole value."""

    def takes(schema, text):
        matcher = compiler.compile(GrammarSpec(kind="json_schema", text=json.dumps(schema))).matcher()
        ids = tokenizer.encode(text)
        if matcher.num_allowed(ids) < len(ids):
            return False
        matcher.accept(*ids)
        return matcher.is_complete()

    return takes
