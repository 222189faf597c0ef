from __future__ import annotations

import httpx
import pytest

from agentform.errors import EngineError, EngineUnauthorized, EngineUnavailable, InvalidRequest, ModelNotFound
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.load import load_engine
from agentform.runtime.server_choice import which_server

MODELS = {"object": "list", "data": [{"id": "m"}]}


def served(**replies):
    """A server that answers some paths, each with its JSON or status."""

    def answer(request):
        said = replies.get(request.url.path.strip("/").replace("/", "_"), 404)
        return httpx.Response(said) if isinstance(said, int) else httpx.Response(200, json=said)

    return {"transport": httpx.MockTransport(answer), "retries": RetryPolicy(retries=0)}


@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        ({"get_model_info": {"model_path": "m", "is_generation": True}, "v1_models": MODELS}, "sglang"),
        ({"props": {"default_generation_settings": {"n_ctx": 1}}, "v1_models": MODELS}, "llama_server"),
        ({"v1_models": MODELS}, "openai"),
        ({"get_model_info": {"error": "Unexpected endpoint"}, "props": {"error": "no"}, "v1_models": MODELS}, "openai"),
        ({"get_model_info": 405, "props": 400, "v1_models": MODELS}, "openai"),
        ({"get_model_info": 401, "props": 403, "v1_models": MODELS}, "openai"),
    ],
)
@pytest.mark.parametrize("url", ["http://host:1", "http://host:1/v1"])
def test_a_server_is_known_by_what_it_says_of_itself(replies, kind, url):
    assert which_server(url, served(**replies)) == kind


def test_what_nobody_knows_is_named_with_all_that_it_answered():
    with pytest.raises(EngineError, match=r"/get_model_info: 404; /props: .*hello.*; /v1/models: .*500.*engine="):
        which_server("http://host:1", served(props={"hello": 1}, v1_models=500))


def test_an_address_that_goes_on_too_far_is_told_where_it_should_end():
    def answer(request):
        return httpx.Response(200, json=MODELS) if request.url.path == "/api/v1/models" else httpx.Response(404)

    with pytest.raises(EngineError, match=r"There is a server at http://host:1/api: leave out /v1/chat/completions$"):
        which_server("http://host:1/api/v1/chat/completions", {"transport": httpx.MockTransport(answer)})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (httpx.RemoteProtocolError("illegal status line: SSH-2.0"), "http://host:1 does not speak HTTP"),
        (httpx.ConnectError("[Errno 111] Connection refused"), r"http://host:1 cannot be reached: .*refused$"),
    ],
)
def test_what_answers_in_no_http_and_who_does_not_answer_are_told_apart(said, told):
    def answer(request):
        raise said

    given = {"transport": httpx.MockTransport(answer), "retries": RetryPolicy(retries=0)}
    with pytest.raises(EngineUnavailable, match=told):
        which_server("http://host:1", given)


@pytest.mark.parametrize("name", ["htp://host:1", "localhost:8000", "127.0.0.1:8000/v1"])
def test_what_was_meant_as_an_address_is_told_how_one_begins(name):
    with pytest.raises(ModelNotFound, match="begins with http://"):
        load_engine(name)


def test_a_port_that_is_none_is_refused():
    with pytest.raises(InvalidRequest, match="1 to 65535"):
        load_engine("http://host:99999")


def test_who_refuses_the_key_and_who_is_not_there_are_told():
    with pytest.raises(EngineUnauthorized):
        which_server("http://host:1", served(get_model_info=401, props=401, v1_models=401))
    with pytest.raises(EngineUnavailable):
        which_server("http://host:1", served(get_model_info=503))


def test_an_engine_of_this_process_does_not_run_what_is_a_server():
    with pytest.raises(InvalidRequest, match="names its kind"):
        load_engine("http://host:1", engine="torch")


def test_a_server_of_openais_interface_alone_is_an_engine_that_writes_and_its_model_may_be_named():
    engine = load_engine("http://host:1#m", **served(v1_models=MODELS))
    assert (engine.info.name, engine.info.scores) == ("m", False)
    with pytest.raises(InvalidRequest, match="no model 'other'; it has m"):
        load_engine("http://host:1/v1#other", **served(v1_models=MODELS))
