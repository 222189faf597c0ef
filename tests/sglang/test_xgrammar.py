"""SGLang's own default grammar backend, for those who want it."""

from __future__ import annotations

import json
import re

import pytest

from agentform.errors import GrammarError
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Sampling
from agentform.runtime.sglang.embedded.engine import SGLangEngine
from tests.support.engines import complete
from tests.support.tiny_model import write_tiny_model

pytestmark = pytest.mark.anyio
PROMPT = tuple(range(20, 60))


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny_model")
    write_tiny_model(folder, max_position_embeddings=1024)
    engine = SGLangEngine(folder, grammar_backend="xgrammar", max_total_tokens=2048, max_running_requests=4)
    yield engine
    engine.close()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize("around", [{}, {"lead": ' "a": ', "follow": ", "}], ids=["alone", "framed"])
async def test_json_schemas_and_regular_expressions_hold(engine, around):
    sampling = Sampling(temperature=2.0)
    number = GrammarSpec(kind="json_schema", text=json.dumps({"enum": ["yes", 3]}), **around)
    answer = await complete(engine, PROMPT, 60, grammar=number, sampling=sampling)
    value = answer.text.removeprefix(number.lead).removesuffix(number.follow)
    assert answer.text == number.lead + value + number.follow
    assert json.loads(value) in ("yes", 3)
    stamp = GrammarSpec(kind="regex", text="[0-9]{4}-[0-9]{2}", **around)
    answer = await complete(engine, PROMPT, 60, grammar=stamp, sampling=sampling)
    assert re.fullmatch(re.escape(stamp.lead) + stamp.text + re.escape(stamp.follow), answer.text)
    assert answer.last.finish == "eos"


async def test_lark_is_refused_by_name(engine):
    with pytest.raises(GrammarError, match="--grammar-backend llguidance"):
        await complete(engine, PROMPT, 8, grammar=GrammarSpec(kind="lark", text='start: "a"'))
