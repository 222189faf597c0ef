"""From a model's name to an engine; imports torch only when an engine is made."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

from agentform.errors import InvalidRequest, MissingDependency
from agentform.runtime.engine import Engine
from agentform.runtime.models.extras import torch_extra

if TYPE_CHECKING:
    from agentform.runtime.sglang.client.server import SGLangServer

__all__ = ["load_engine", "server_class"]

_SGLANG = "sglang:"


def load_engine(name: str, **options: Any) -> Engine:
    """An engine for a catalogue name such as "smollm2-135m", a model folder, a Hugging Face hub id or a server's URL.

    `options` are TorchEngine's keyword arguments, such as `cache_dir`, or `snapshots="balanced"` for hybrid models.
    "sglang:" before the name loads it into SGLang; `options` are then SGLang's server arguments. For a URL
    (``http://host:30000``, ``https://…``) they are SGLangServer's; after a ``#`` the URL may name the tokenizer, and
    AGENTFORM_ENGINE_KEY may hold the `api_key`.

    Raises:
        ModelNotFound: the name is neither in the catalogue, nor a folder, nor a hub id.
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: what the engine needs is not installed.
        CacheBudgetExceeded: the budget holds no two tokens, or there is less memory.
        EngineError: the model cannot be served, or, for a server, what `SGLangServer` raises.
    """
    if name.startswith(("http://", "https://")):
        return _server(name, options)
    if name.startswith(_SGLANG):
        return _sglang_engine(name.removeprefix(_SGLANG), options)
    with torch_extra():
        from agentform.runtime.models.resolve import resolve_model
        from agentform.runtime.torch.engine import TorchEngine

        return TorchEngine(resolve_model(name), name=name, **options)


def _server(name: str, options: dict[str, Any]) -> Engine:
    engine = server_class()
    known = inspect.signature(engine).parameters
    if unknown := sorted(options.keys() - known.keys()):
        raise InvalidRequest(f"an engine behind a URL takes no {', '.join(unknown)}; that is the server's business")
    url, _, tokenizer = name.partition("#")
    given = {"tokenizer": tokenizer or None, "api_key": os.environ.get("AGENTFORM_ENGINE_KEY") or None}
    return engine(url, **{**given, **options})


def server_class() -> type[SGLangServer]:
    """`SGLangServer`. Raises MissingDependency where the extra "client" is not installed."""
    try:
        from agentform.runtime.sglang.client.server import SGLangServer
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise MissingDependency("httpx is needed to speak to a server: pip install 'agentform[client]'") from error
    return SGLangServer


def _sglang_engine(name: str, options: dict[str, Any]) -> Engine:
    from agentform.runtime.sglang.wire.versions import check_version

    check_version()  # before a model is fetched in vain
    with torch_extra():
        from agentform.runtime.models.resolve import resolve_model
        from agentform.runtime.sglang.embedded.engine import SGLangEngine

        return SGLangEngine(resolve_model(name), name=name, **options)
