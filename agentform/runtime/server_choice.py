"""What kind of server answers at an address.

::

    GET /get_model_info   an object           ──▶ SGLang, or its router
    GET /props            its settings        ──▶ llama.cpp's server
    GET /v1/models        a list of models    ──▶ any server that speaks OpenAI's interface
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast, get_args

from agentform.errors import EngineError, EngineUnauthorized, EngineUnavailable
from agentform.runtime.http.connection import Connection
from agentform.runtime.http.library import httpx
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.http.transport import Transport

__all__ = ["SERVER_KINDS", "ServerKind", "server_root", "which_server"]

ServerKind: TypeAlias = Literal["sglang", "llama_server", "openai"]
SERVER_KINDS: tuple[ServerKind, ...] = get_args(ServerKind)

_AT_START = RetryPolicy(retries=2)
"""An address that is wrong is told of soon; a server that is asked again later may take its time."""
_CONNECTION = ("api_key", "headers", "ca_file", "client_certificate", "verify", "connect_timeout_s", "read_timeout_s")
_WAYS = (*_CONNECTION, "retries", "transport")


def server_root(url: str) -> str:
    """The address without the path ``/v1``, as clients of OpenAI's interface name it."""
    return url.rstrip("/").removesuffix("/v1")


def which_server(url: str, options: Mapping[str, Any]) -> ServerKind:
    """Ask who is there; `options` are those of the engine, of which the ways to reach a server count here.

    Raises:
        EngineUnavailable: nothing answers at the address.
        EngineUnauthorized: the key or certificate is refused.
        InvalidRequest: the address is no URL.
        EngineError: what answers is none of the servers that are known.
    """
    transport = _transport(server_root(url), options)
    said = {path: _said(transport, path) for path in ("/get_model_info",)}
    if _is_sglang(said["/get_model_info"]):
        return "sglang"
    said["/props"] = _said(transport, "/props")
    if isinstance(said["/props"], dict) and "default_generation_settings" in said["/props"]:
        return "llama_server"
    said["/v1/models"] = _said(transport, "/v1/models")
    if isinstance(said["/v1/models"], dict) and isinstance(said["/v1/models"].get("data"), list):
        return "openai"
    if isinstance(refusal := said["/v1/models"], EngineUnauthorized):
        raise refusal
    told = "; ".join(f"{path}: {_shown(reply)}" for path, reply in said.items())
    raise EngineError(
        f"{transport.where} is no server that is known here. It answered {told}. SGLang knows /get_model_info, "
        "llama.cpp's server /props, and servers of OpenAI's interface /v1/models; engine= names the kind"
        + _hint(server_root(url), options)
    )


def _transport(url: str, options: Mapping[str, Any]) -> Transport:
    given = {key: options[key] for key in _WAYS if options.get(key) is not None}
    return Transport(Connection(url=url, **{"retries": _AT_START, **given}))


def _hint(root: str, options: Mapping[str, Any]) -> str:
    """Where the address goes on too far: the shorter one at which there is a server."""
    url = httpx.URL(root)
    steps = [step for step in url.path.split("/") if step]
    for kept in reversed(range(len(steps))):
        shorter = str(url.copy_with(path="/" + "/".join(steps[:kept]), query=None, fragment=None)).rstrip("/")
        transport = _transport(shorter, options)
        replies = (_said(transport, path) for path in ("/v1/models", "/get_model_info", "/props"))
        if any(isinstance(reply, dict) for reply in replies):
            return f". There is a server at {transport.where}: leave out /{'/'.join(steps[kept:])}"
    return ""


def _said(transport: Transport, path: str) -> Any:
    """What is answered at a path, or the error in its place.

    Raises:
        EngineUnavailable: nobody answers.
    """
    try:
        return transport.ask_now("GET", path)
    except EngineUnavailable:
        raise
    except EngineError as error:
        return error


def _is_sglang(reply: Any) -> bool:
    said = cast("dict[str, Any]", reply) if isinstance(reply, dict) else {}
    return any(key in said for key in ("model_path", "tokenizer_path", "is_generation"))


def _shown(reply: Any) -> str:
    if reply is None:
        return "404"
    return " ".join(str(reply).split())[:120]
