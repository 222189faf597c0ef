"""From a URL, or another library's decision model, to a decider; httpx is not imported before it is needed."""

from __future__ import annotations

import os
from typing import Any

from agentform._util.install import install_line
from agentform.errors import InvalidInput, MissingDependency
from agentform.forms.decider import Decider
from agentform.forms.langchain_decider import DeciderSource, decider_of

__all__ = ["load_decider"]

_KEY_VARIABLE = "AGENTFORM_DECIDER_KEY"


def load_decider(
    source: str | DeciderSource,
    *,
    model: str | None = None,
    api_key: str | None = None,
    timeout_s: float = 10.0,
    fallback: bool = True,
    rest_s: float = 30.0,
    **connection: Any,
) -> Decider:
    """A decision model, for `decider=` of `Agent`, `fill` and `Responder`, or in the place of an engine in `decide`.

    Args:
        source: The address of a System One endpoint, ``http://host/v1/systemone``; ``#name`` after it names the model.
            Or a decision model: LangChain's, or whatever has `name` and `decide`.
        model: The model to ask for; by default the only one that the server has.
        api_key: Of the server; by default what AGENTFORM_DECIDER_KEY holds.
        timeout_s: Seconds for one batch of questions, tries again included.
        fallback: Whether the chat model answers where this one fails; without it the failure is raised.
        rest_s: Seconds in which a model that failed is not asked again, where there is a fallback.
        connection: For a URL, how it is reached: `headers`, `verify`, `ca_file`, `client_certificate`, `retries`.

    Raises:
        InvalidInput: the source is none, or a number is out of its range.
        InvalidRequest: the address is no URL of http or https.
        MissingDependency: the extra "client" is not installed.
    """
    if not isinstance(source, str):
        made = decider_of(source)
        if made is None:
            raise InvalidInput("a decider is made of an address or a decision model, got None")
        return Decider(model=made.model, timeout_s=timeout_s, fallback=fallback, rest_s=rest_s)
    try:
        from agentform.deciders.system_one import SystemOneModel
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise MissingDependency(f"httpx is needed to ask a server: {install_line('client')}") from error
    url, _, named = source.partition("#")
    key = api_key or os.environ.get(_KEY_VARIABLE) or None
    asked = SystemOneModel(url, model=model or named or None, api_key=key, timeout_s=timeout_s, **connection)
    return Decider(model=asked, timeout_s=timeout_s, fallback=fallback, rest_s=rest_s)
