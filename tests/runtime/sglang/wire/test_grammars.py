from __future__ import annotations

import json

import pytest

from agentform.errors import GrammarError
from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.sglang.wire.grammars import llguidance_params, xgrammar_params
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import write_tiny_tokenizer

AGE = json.dumps({"type": "integer", "minimum": 1, "not": {"const": 7}})
SPECS = [
    GrammarSpec(kind="json_schema", text=AGE),
    GrammarSpec(kind="json_schema", text=AGE, lead=' "a', follow='",'),
    GrammarSpec(kind="json_schema", text='{"const": "::= x"}'),
    GrammarSpec(kind="regex", text="[ab]+", lead="(", follow=")"),
    GrammarSpec(kind="lark", text='start: "a" | "b"', follow="\n"),
]


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))
    return Compiler(Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_llguidance_gets_lark_text_that_means_the_same(compiler, spec):
    compiled = compiler.compile(spec)
    text = llguidance_params(compiled)["ebnf"]
    assert text.startswith("start:")  # by this the server knows Lark from GBNF
    again = compiler.compile(GrammarSpec(kind="lark", text=text))
    allowed, same = compiled.matcher().allowed(), again.matcher().allowed()
    assert (allowed == same).all()
    assert allowed.any()


def test_xgrammar_gets_lead_value_and_follow_in_one_sequence():
    tag = json.loads(xgrammar_params(SPECS[1])["structural_tag"])
    assert [part["type"] for part in tag["format"]["elements"]] == ["const_string", "json_schema", "const_string"]
    assert "not" not in tag["format"]["elements"][1]["json_schema"]
    alone = json.loads(xgrammar_params(GrammarSpec(kind="regex", text="a+"))["structural_tag"])
    assert alone["format"] == {"type": "regex", "pattern": "a+"}


def test_xgrammar_is_not_given_what_it_cannot_read():
    with pytest.raises(GrammarError, match="--grammar-backend llguidance"):
        xgrammar_params(SPECS[4])
