"""What a server or router says of itself, asked once when an engine is made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from agentform.errors import EngineError, GrammarError, ModelMismatch, ReplyMalformed
from agentform.runtime.http.transport import Transport
from agentform.runtime.sglang.wire.failures import understood
from agentform.runtime.sglang.wire.requests import MOST_BRANCHES
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer

__all__ = ["MODEL_INFO", "Served", "ask_served", "check_tokenizer", "identity_of", "reads_lark"]

MODEL_INFO = "/get_model_info"
"""The one path under which servers and routers both tell of the model."""

_PROBE = 'The quick brown fox, 12 345.67 — “äöü” 汉字 🙂\n\tdef f(x): return {"a": [true, null]}  # <b>&amp;'


@dataclass(frozen=True, kw_only=True)
class Served:
    """A model behind an address; `None` is what was not said."""

    name: str
    identity: str
    """Changes when another model is served."""
    tokenizer_path: str | None
    is_router: bool
    context_tokens: int | None
    prompt_tokens: int | None
    """Tokens that a prompt may have."""
    capacity_tokens: int | None
    """What the pool of one server holds."""
    dtype: str
    grammar_backend: str | None
    most_branches: int
    """Requests that may be queued at once, as far as this bounds one batch."""


def ask_served(transport: Transport) -> Served:
    """What the server says of itself.

    Raises:
        EngineUnavailable: the server is not reached.
        EngineUnauthorized: the server refuses the key or the client certificate.
        ReplyMalformed: the server answers with something else than its protocol says.
        EngineError: no SGLang answers.
    """
    with understood(transport.where):
        return _served(transport)


def _served(transport: Transport) -> Served:
    model = _object(transport, MODEL_INFO)
    if not model:
        raise EngineError(f"{transport.where} does not know {MODEL_INFO}: there is no SGLang server or router")
    if model.get("is_generation") is False:
        raise EngineError(f"{transport.where} serves {model.get('model_path')}, which does not generate text")
    is_router = transport.ask_now("GET", "/workers") is not None
    server = {} if is_router else _object(transport, "/server_info") or _object(transport, "/get_server_info")
    most_queued = server.get("max_queued_requests")
    return Served(
        name=str(model.get("served_model_name") or model.get("model_path") or "sglang"),
        identity=identity_of(model),
        tokenizer_path=model.get("tokenizer_path") or model.get("model_path"),
        is_router=is_router,
        context_tokens=_context(transport),
        prompt_tokens=server.get("max_req_input_len"),
        capacity_tokens=server.get("max_total_num_tokens"),
        dtype=f"{server.get('dtype')}/{server.get('quantization')}",
        grammar_backend=server.get("grammar_backend"),
        most_branches=min(MOST_BRANCHES, most_queued) if most_queued else MOST_BRANCHES,
    )


def identity_of(model: Mapping[str, Any]) -> str:
    """What tells one model from another, as far as a server says; several behind one router must agree on it."""
    said = [str(model.get(key)) for key in ("served_model_name", "weight_version", "architectures", "model_type")]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def check_tokenizer(transport: Transport, tokenizer: HFTokenizer) -> None:
    """Let the server read a text, and compare token ids.

    A token id that the model does not have kills an SGLang server, so none is sent before this. A server that takes no
    text cannot be checked.

    Raises:
        ModelMismatch: they read it differently.
    """
    body = {
        "text": _PROBE,
        "sampling_params": {"max_new_tokens": 0, "temperature": 0.0},
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    try:
        reply = transport.ask_now("POST", "/generate", body)
    except EngineError as error:
        if "tokenizer" in str(error):  # started with --skip-tokenizer-init
            return
        raise
    with understood(transport.where):
        theirs = [int(entry[1]) for entry in reply["meta_info"]["input_token_logprobs"]]
    ours = list(tokenizer.encode(_PROBE))
    # A tokenizer may put marks around what it is given.
    if not any(theirs[start : start + len(ours)] == ours for start in range(3)):
        raise ModelMismatch(
            f"the tokenizer here is not the one of {transport.where}: it reads a text as {_some(ours)}, and the server "
            f"as {_some(theirs)}; give the tokenizer of the model that is served"
        )


def reads_lark(transport: Transport, served: Served) -> bool:
    """Whether the grammar backend is llguidance; a router does not say, so a grammar is tried."""
    if served.grammar_backend is not None:
        return served.grammar_backend == "llguidance"
    body = {"text": "a", "sampling_params": {"max_new_tokens": 1, "temperature": 0.0, "ebnf": 'start: "a"'}}
    try:
        transport.ask_now("POST", "/generate", body)
    except GrammarError:
        return False
    return True


def _object(transport: Transport, path: str) -> dict[str, Any]:
    found = transport.ask_now("GET", path)
    if found is not None and not isinstance(found, dict):
        raise ReplyMalformed(f"{transport.where}{path} holds no object: {str(found)[:80]}")
    return cast("dict[str, Any]", found or {})


def _context(transport: Transport) -> int | None:
    """Routers do not say."""
    listed = _object(transport, "/v1/models").get("data") or [{}]
    most = listed[0].get("max_model_len") if isinstance(listed[0], dict) else None
    return most if isinstance(most, int) else None


def _some(ids: list[int]) -> str:
    return f"{ids[:8]} ({len(ids)} tokens)"
