"""What llama.cpp's server says of itself, asked once when an engine is made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

from agentform.errors import ContextOverflow, EngineError, GrammarError, InvalidRequest
from agentform.runtime.http.failures import understood
from agentform.runtime.http.transport import Transport

__all__ = ["LLAMA_CPP", "PROPS", "LlamaServed", "ask_llama_served", "is_llama_server", "refused_by_llama"]

PROPS = "/props"
LLAMA_CPP = "llama.cpp"
_TOO_LONG = re.compile(r"\((\d+) tokens\).*context size \((\d+) tokens\)")


@dataclass(frozen=True, kw_only=True)
class LlamaServed:
    """A model behind an address."""

    name: str
    identity: str
    """Changes when another model is served."""
    context_tokens: int
    """Of one slot."""
    num_slots: int
    templates: Mapping[str, str]
    named_tokens: Mapping[str, str]
    reads_llguidance: bool
    """Whether its build follows llguidance's grammars."""

    def is_of(self, props: Any, listed: Any) -> bool:
        """Whether a server that says so of itself and of its models has the same one."""
        return is_llama_server(props) and _identity(props, listed) == self.identity


def ask_llama_served(transport: Transport) -> LlamaServed:
    """What the server says of itself.

    Raises:
        EngineError: it is not reached, refuses, or is no server of llama.cpp.
    """
    with understood(transport.where, LLAMA_CPP):
        props = transport.ask_now("GET", PROPS)
        if not is_llama_server(props):
            raise EngineError(f"{transport.where} does not know {PROPS}: there is no server of llama.cpp")
        return LlamaServed(
            name=_name(props),
            identity=_identity(props, transport.ask_now("GET", "/v1/models")),
            context_tokens=int(props["default_generation_settings"]["n_ctx"]),
            num_slots=int(props.get("total_slots") or 1),
            templates=_templates(props),
            named_tokens={key: props[key] for key in ("bos_token", "eos_token") if props.get(key)},
            reads_llguidance=_reads_llguidance(transport),
        )


def is_llama_server(props: Any) -> bool:
    """Whether this is what llama.cpp's server answers at `PROPS`."""
    return isinstance(props, dict) and "default_generation_settings" in props


def refused_by_llama(said: str) -> EngineError | GrammarError:
    """The error for what llama.cpp's server says of a request that it does not take."""
    if "grammar" in said:
        return GrammarError(f"llama.cpp: {said}")
    if found := _TOO_LONG.search(said):
        return ContextOverflow(prompt_tokens=int(found[1]), context_tokens=int(found[2]))
    return InvalidRequest(f"llama.cpp: {said}")


def _name(props: Mapping[str, Any]) -> str:
    named = str(props.get("model_alias") or props.get("model_path") or LLAMA_CPP)
    return PurePath(named).name or named


def _templates(props: Mapping[str, Any]) -> dict[str, str]:
    named = {"default": props.get("chat_template"), "tool_use": props.get("chat_template_tool_use")}
    return {name: text for name, text in named.items() if isinstance(text, str) and text}


def _reads_llguidance(transport: Transport) -> bool:
    """A build that does not know the grammar either refuses it, or writes on as if there were none."""
    grammar = '%llguidance {}\nstart: "}{|}{"'
    body = {"prompt": "a", "n_predict": 8, "temperature": 0.0, "grammar": grammar, "cache_prompt": False}
    try:
        return (transport.ask_now("POST", "/completion", body) or {}).get("content") == "}{|}{"
    except (GrammarError, InvalidRequest):
        return False


def _identity(props: Mapping[str, Any], listed: Any) -> str:
    models = cast("dict[str, Any]", listed or {}).get("data") or [{}]
    meta = models[0].get("meta") or {}
    facts = (meta.get(key) for key in ("n_vocab", "n_params", "size"))
    said = [props.get("model_path"), props.get("model_alias"), *facts]
    return hashlib.sha256("\n".join(map(str, said)).encode()).hexdigest()
