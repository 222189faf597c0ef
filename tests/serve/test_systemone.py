"""System One's official client against a real server."""

from __future__ import annotations

import json

import httpx
import openai
import pytest
import typesafe_sdk
from typesafe_sdk import AsyncTypeSafeClient, Choice, Noul, RetryPolicy, Score, TypeSafeClient

from agentform.testing import Fill, ScriptedEngine
from tests.support.servers import running

SCRIPT = [
    Fill("Is it dark", {"answer": True}),
    Fill("Who comes", {"answer": "bulbs"}),
    Fill("How bad", {"answer": 2}),
]
KEY = "a key that is long enough".replace(" ", "-")
DARK = {"dark": Noul(instructions="Is it dark?")}


def scripted() -> ScriptedEngine:
    return ScriptedEngine(SCRIPT, probability=0.8)


def client(server, **options) -> TypeSafeClient:
    retry = RetryPolicy(max_retries=0)
    return TypeSafeClient(base_url=server.url, **{"api_key": "none", "model": "scripted", "retry": retry, **options})


def ask(engine, state="It is dark.", questions=DARK, **options):
    with running(engine) as server, client(server) as each:
        return each.system_one(state, questions, **options)


def prompts_of(engine) -> list[str]:
    return [engine.tokenizer.decode(request.prompt_ids) for request in engine.requests]


def test_every_kind_of_question_is_answered_under_its_name():
    criteria = {"bulbs": None, "other": {"everything": ["else"]}}
    levels = ["nobody minds", "some do", {"everybody": True}]
    questions = {
        "dark": Noul(instructions="Is it dark?", criteria={"true": "no light", "false": None}),
        "who": Choice(instructions={"ask": "Who comes?"}, criteria=criteria),
        "bad": Score(instructions="How bad is it?", criteria=levels),
        "only": Choice(criteria={"one": None}),
    }
    done = ask(scripted(), {"room": "office", "lamps": [1, None]}, questions)
    assert (done.model, list(done.answers)) == ("scripted", ["dark", "who", "bad", "only"])
    assert done.nouls["dark"].noul > 0.5
    who = done.choices["who"]
    assert (who.choice, who.confidence) == ("bulbs", who.probabilities["bulbs"])
    assert sum(who.probabilities.values()) == pytest.approx(1)
    bad = done.scores["bad"]
    assert bad.legend == dict(enumerate(levels))
    assert bad.score == pytest.approx(sum(level * p for level, p in bad.probabilities.items()))
    assert bad.confidence == bad.probabilities[2] == max(bad.probabilities.values())
    assert done.choices["only"].probabilities == {"one": 1.0}
    assert (done.usage.output_tokens, done.usage.input_tokens > 50) == (0, True)
    assert done.request_id.startswith("req_")


def test_a_question_is_read_with_its_options_and_without_the_others_and_their_names():
    engine = scripted()
    questions = DARK | {"hidden_name": Choice(instructions="Who comes?", criteria={"bulbs": "lamps", "other": None})}
    ask(engine, {"room": "office"}, questions)
    [first] = [p for p in prompts_of(engine) if '{"room": "office"}' in p and "Who" in p]
    assert "Who comes?\n- bulbs: lamps\n- other<" in first
    assert not any("Is it dark" in p and "Who comes" in p for p in prompts_of(engine))
    assert not any("hidden_name" in p for p in prompts_of(engine))


def test_an_answer_does_not_depend_on_the_other_questions_or_on_its_name():
    other = {"who": Choice(instructions="Who comes?", criteria=dict.fromkeys(["bulbs", "other"]))}
    alone = ask(scripted()).nouls["dark"]
    beside = ask(scripted(), questions=other | {"renamed": DARK["dark"]}).nouls["renamed"]
    assert alone == beside


def test_options_may_be_a_list_and_as_many_as_255():
    options = ["bulbs", *(f"other {at}" for at in range(254))]
    question = {"type": "choice", "instructions": "Who comes?", "criteria": options}
    done = ask(scripted(), extra_body={"questions": {"who": question}})
    assert (done.choices["who"].choice, len(done.choices["who"].probabilities)) == ("bulbs", 255)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"model": "other"}, typesafe_sdk.TypeSafeNotFoundError, "the model is 'scripted'"),
        ({"state": 3}, typesafe_sdk.TypeSafeUnprocessableEntityError, "state: "),
        ({"questions": {}}, typesafe_sdk.TypeSafeUnprocessableEntityError, "questions: there must be 1 to 400"),
        ({"topp": 1}, typesafe_sdk.TypeSafeUnprocessableEntityError, "unknown field 'topp'"),
        ({"assets": {"a": {}}}, typesafe_sdk.TypeSafeUnprocessableEntityError, "assets: "),
        ({"state": "x" * 70_000}, typesafe_sdk.TypeSafeBadRequestError, "context"),
    ],
)
def test_errors_are_the_clients_own(change, error, said):
    with pytest.raises(error, match=said) as caught:
        ask(scripted(), extra_body=change)
    assert caught.value.request_id.startswith("req_")


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ({"type": "box"}, []),
        ({"type": "noul"}, ["instructions"]),
        ({"type": "noul", "criteria": {"true": None}}, ["instructions"]),
        ({"type": "choice", "criteria": None}, ["criteria"]),
        ({"type": "choice", "criteria": {}}, ["criteria"]),
        ({"type": "choice", "criteria": ["a", "a"]}, ["criteria"]),
        ({"type": "choice", "criteria": {"a": 1, "b": None}}, ["criteria", "a"]),
        ({"type": "choice", "criteria": dict.fromkeys(map(str, range(256)))}, ["criteria"]),
        ({"type": "score", "criteria": ["one"]}, ["criteria"]),
        ({"type": "score", "criteria": list(map(str, range(11)))}, ["criteria"]),
        ({"type": "score", "criteria": ["one", None]}, ["criteria", 1]),
    ],
)
def test_a_faulty_question_is_named_by_its_place(question, place):
    with pytest.raises(typesafe_sdk.TypeSafeUnprocessableEntityError) as caught:
        ask(scripted(), extra_body={"questions": {"a.b": question}})
    [detail] = caught.value.body["detail"]
    assert detail["loc"] == ["body", "questions", "a.b", *place]
    assert caught.value.body["error"]["message"] == detail["msg"]


def test_both_clients_list_the_model():
    with running(ScriptedEngine([]), served_name="org/mine") as server, client(server) as each:
        assert [model.name for model in each.models.list().models] == ["org/mine"]
        theirs = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        with theirs:
            assert [model.id for model in theirs.models.list()] == ["org/mine"]


def test_a_wrong_key_is_the_clients_authentication_error():
    with running(scripted(), api_keys=(KEY,)) as server, client(server) as each:
        with pytest.raises(typesafe_sdk.TypeSafeAuthenticationError):
            each.system_one("x", DARK)
        with client(server, api_key=KEY) as known:
            assert known.system_one("x", DARK).nouls["dark"].noul > 0.5


@pytest.mark.anyio
async def test_the_asynchronous_client_asks_too():
    with running(scripted()) as server:
        async with AsyncTypeSafeClient(base_url=server.url, api_key="none", model="scripted") as each:
            done = await each.system_one("It is dark.", DARK)
    assert done.nouls["dark"].noul > 0.5


def test_compressed_bodies_are_read():
    pytest.importorskip("backports.zstd")
    with running(scripted()) as server, client(server, compression="zstd") as each:
        assert each.system_one("It is dark. " * 200, DARK).nouls["dark"].noul > 0.5


@pytest.mark.parametrize(("encoding", "status"), [("br", 415), ("zstd", 400), ("identity", 200)])
def test_a_body_in_an_encoding_that_is_not_taken_is_refused(encoding, status):
    body = json.dumps(
        {"model": "scripted", "state": "x", "questions": {"d": {"type": "noul", "instructions": "Is it dark?"}}}
    )
    headers = {"content-type": "application/json", "content-encoding": encoding}
    with running(scripted()) as server:
        assert httpx.post(server.url + "/v1/systemone", content=body, headers=headers).status_code == status


def test_a_small_body_that_holds_a_large_one_is_refused():
    zstd = pytest.importorskip("backports.zstd")
    headers = {"content-type": "application/json", "content-encoding": "zstd"}
    with running(scripted(), max_body_bytes=100_000) as server:
        for text, status in [(b" " * 50_000_000, 413), (b"", 400)]:
            whole = zstd.compress(text)
            for body in (whole, whole[:-1]) if text == b"" else (whole,):
                answer = httpx.post(server.url + "/v1/systemone", content=body, headers=headers)
                assert answer.status_code == status
