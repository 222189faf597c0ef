"""From a model's name to an engine; no engine's library is imported before it is needed."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from agentform._util.install import install_line
from agentform._util.paths import cache_home
from agentform.errors import InvalidRequest, MissingDependency
from agentform.runtime.choice import EngineChoice, choose_engine
from agentform.runtime.engine import Engine
from agentform.runtime.idle_threads import let_idle_threads_sleep
from agentform.runtime.models.adapter_file import model_of
from agentform.runtime.models.catalogue import CATALOGUE
from agentform.runtime.models.extras import torch_extra
from agentform.runtime.prior_store import PriorStore

if TYPE_CHECKING:
    from agentform.runtime.llama_cpp.engine import LlamaCppEngine
    from agentform.runtime.sglang.embedded.engine import SGLangEngine
    from agentform.runtime.torch.engine import TorchEngine

__all__ = ["load_engine", "server_class"]

_SGLANG = "sglang:"
_SERVERS = {
    "sglang": ("agentform.runtime.sglang.client.server", "SGLangServer", "tokenizer"),
    "llama_server": ("agentform.runtime.llama_server.engine", "LlamaServer", ""),
    "openai": ("agentform.runtime.openai_server.engine", "OpenAIServer", "model"),
}
_ADAPTER = "adapter:"


def load_engine(name: str, *, engine: str | None = None, **options: Any) -> Engine:
    """An engine for a model: by catalogue name, model folder, GGUF file, Hugging Face hub id or a server's URL.

    Which engine runs it on this machine is decided here, and `engine.info.why` says why; `engine` ("torch" or
    "llama_cpp") asks for one, and for a URL ("sglang", "llama_server" or "openai") says what kind of server is there.
    `options` are its settings, the fields of `TorchEngine`'s or `LlamaCppEngine`'s, such as `cache_dir`, or
    `snapshots="balanced"` for hybrid models; `device="cpu"` goes for both.
    A GGUF file is named by its path, by a folder that holds it, by "org/name:pattern" on the hub, or by its name alone
    where AGENTFORM_MODELS names a folder with it.
    `adapter` names a LoRA adapter for the model, by the name that `agentform tune` gave it or by its folder;
    "adapter:" before that name loads the model that it was trained for, with it.
    `chat_template_kwargs` are arguments of the model's chat template in every prompt, such as `enable_thinking`.
    "sglang:" before the name loads it into SGLang; `options` are then SGLang's server arguments.
    For a URL (``http://host:30000``, ``https://…``) the server is asked what it is, and they are those of
    `SGLangServer`, `LlamaServer`, or `OpenAIServer` for any other that speaks OpenAI's interface, which writes and
    cannot score. After a ``#`` the URL may name the tokenizer for SGLang, or the model of several, and
    AGENTFORM_ENGINE_KEY may hold the `api_key`.
    OpenMP's threads sleep while they wait, unless OMP_WAIT_POLICY, GOMP_SPINCOUNT or KMP_BLOCKTIME is set.
    Label priors that the engine measures are kept on disk, in the user's cache folder.

    Raises:
        InvalidRequest: a setting that the engine does not have or that is out of its range, or no such engine.
        ModelNotFound, WeightsUnavailable, WeightsCorrupt: the model or the adapter is not there, or not whole.
        MissingDependency: an extra is not installed.
        EngineError: the model cannot be served; CacheBudgetExceeded among them, and what engines over HTTP raise.
    """
    kwargs = options.pop("chat_template_kwargs", None)
    loaded = _loaded(name, engine, options)
    if kwargs:
        loaded.tokenizer.template_arguments.update(kwargs)
    return loaded


def _loaded(name: str, engine: str | None, options: dict[str, Any]) -> Engine:
    if name.startswith(("http://", "https://")):
        loaded = _server(name, engine, options)
    elif name.startswith(_SGLANG):
        if engine is not None:
            raise InvalidRequest(f"{name} says what runs it; engine={engine!r} is for models that run in this process")
        loaded = _sglang_engine(name.removeprefix(_SGLANG), options)
    else:
        let_idle_threads_sleep()
        name = _adapted(name, options)
        choice = choose_engine(name, asked=engine, settings=options)
        loaded = (_llama_cpp if choice.engine == "llama_cpp" else _torch)(choice, name, options)
    loaded.priors = PriorStore(cache_home() / "priors")
    return loaded


def _adapted(name: str, options: dict[str, Any]) -> str:
    """The model's own name, where an adapter's stands for both; the adapter is then among the options."""
    if name.startswith(_ADAPTER):
        options["adapter"] = name.removeprefix(_ADAPTER)
        return model_of(options["adapter"])
    return name


def _llama_cpp(choice: EngineChoice, name: str, options: dict[str, Any]) -> LlamaCppEngine:
    from agentform.runtime.llama_cpp.engine import LlamaCppEngine
    from agentform.runtime.llama_cpp.options import LlamaOptions

    if "device" in options:
        options = {**options, "gpu_layers": _gpu_layers(options)}
        del options["device"]
    known = {"adapter", "gpu_layers", *(field.name for field in fields(LlamaOptions))}
    if unknown := sorted(options.keys() - known):
        raise InvalidRequest(
            f"the engine on llama.cpp takes no {', '.join(unknown)}; it takes {', '.join(sorted(known))}"
        )
    if name in CATALOGUE:  # its digest was compared
        options = {"try_first": False, **options}
    return LlamaCppEngine(choice.path, name=name, why=choice.why, **options)


def _gpu_layers(options: dict[str, Any]) -> int | None:
    """What `device` means to llama.cpp, whose build decides which GPU there is, if any."""
    device, asked = options["device"], options.get("gpu_layers")
    if str(device) == "cpu" and not asked:
        return 0
    raise InvalidRequest(
        f"device={str(device)!r} with gpu_layers={asked}: llama.cpp takes device='cpu', or gpu_layers on the GPU that "
        "its build is for"
    )


def _torch(choice: EngineChoice, name: str, options: dict[str, Any]) -> TorchEngine:
    with torch_extra():
        from agentform.runtime.torch.engine import TorchEngine

        return TorchEngine(choice.path, name=name, why=choice.why, **options)


def _server(name: str, asked: str | None, options: dict[str, Any]) -> Any:
    """The engine for what answers at a URL.

    Raises:
        InvalidRequest: there is no such kind of server, or it takes no such setting.
        EngineError: nothing that is known answers there.
    """
    if asked is not None and asked not in _SERVERS:
        raise InvalidRequest(f"{name} is a server; engine= names its kind, {', '.join(_SERVERS)}, and not {asked!r}")
    url, _, named = name.partition("#")
    given = {"api_key": os.environ.get("AGENTFORM_ENGINE_KEY") or None, **options}
    with _client_extra():
        from agentform.runtime.server_choice import which_server

        kind = asked or which_server(url, given)
        engine, of_fragment = server_class(kind)
    known = inspect.signature(engine).parameters
    if unknown := sorted(options.keys() - known.keys()):
        raise InvalidRequest(f"{engine.__name__} takes no {', '.join(unknown)}; that is the server's business")
    if named and not of_fragment:
        raise InvalidRequest(f"{engine.__name__} has model and tokenizer from the server; leave out #{named}")
    return engine(url, **{**({of_fragment: named} if named else {}), **given})


def server_class(kind: str) -> tuple[Callable[..., Any], str]:
    """The engine for a kind of server, and which of its settings a URL's fragment is, if any.

    Raises:
        MissingDependency: the extra "client" is not installed.
    """
    module, name, of_fragment = _SERVERS[kind]
    with _client_extra():
        return getattr(importlib.import_module(module), name), of_fragment


@contextmanager
def _client_extra() -> Generator[None, None, None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise MissingDependency(f"httpx is needed to speak to a server: {install_line('client')}") from error


def _sglang_engine(name: str, options: dict[str, Any]) -> SGLangEngine:
    from agentform.runtime.sglang.wire.versions import check_version

    check_version()  # before a model is fetched in vain
    with torch_extra():
        from agentform.runtime.models.resolve import resolve_model
        from agentform.runtime.sglang.embedded.engine import SGLangEngine

        return SGLangEngine(resolve_model(name), name=name, **options)
