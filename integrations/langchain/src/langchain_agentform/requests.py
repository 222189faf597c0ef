"""What one call of the chat model asks for: its options over the model's own, in agentform's words."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.exceptions import ModelInvalidRequestError

from agentform import Limits, Reasoning, Sampling, Tool, Toolbox
from langchain_agentform.schemas import schema_of
from langchain_agentform.tools import ToolChoice, allowed_names, toolbox, wanted_choice

__all__ = ["OPTIONS", "Request", "ResponseFormat", "request_of"]

OPTIONS = frozenset(
    {
        "conversation",
        "max_tokens",
        "model",
        "chat_template_kwargs",
        "parallel_tool_calls",
        "reasoning_effort",
        "reasoning_tokens",
        "response_format",
        "seed",
        "stop",
        "stream",
        "temperature",
        "timeout",
        "tool_choice",
        "tools",
        "top_p",
    }
)
"""What may be given for one call, by keyword or `bind`."""

_ANY_OBJECT = {"type": "object"}
_PARALLEL_CALLS = 8
"""Most calls in one message where several are wanted and `limits` do not say how many."""


class ResponseFormat(dict[str, Any]):
    """A response format in OpenAI's style that remembers the form; `None` asks for any JSON object."""

    def __init__(self, form: Tool[..., Any], kind: str) -> None:
        schema = {"name": form.name, "schema": form.definition()["function"]["parameters"]}
        super().__init__({"type": kind, "json_schema": schema})
        self.form = form


@dataclass(frozen=True, kw_only=True)
class Request:
    """One turn to take."""

    tools: Toolbox
    tool_choice: ToolChoice
    allowed: tuple[str, ...] | None
    """The tools that may be called, where the model is told of more."""
    form: Tool[..., Any] | None
    stop: tuple[str, ...]
    sampling: Sampling
    limits: Limits
    reasoning: Reasoning | None
    """How the model thinks in this turn, where it is asked for."""


def request_of(options: Mapping[str, Any], limits: Limits, reasoning: Reasoning | None = None) -> Request:
    """The request that options make, those of the model and of the call together.

    Raises:
        ModelInvalidRequestError: there is no such option, or a value is none that it may have.
    """
    unknown = sorted(options.keys() - OPTIONS)
    if unknown:
        raise ModelInvalidRequestError(
            f"unknown options: {', '.join(unknown)}; there are: {', '.join(sorted(OPTIONS))}"
        )
    tools = toolbox(options.get("tools"))
    return Request(
        tools=tools,
        tool_choice=wanted_choice(options.get("tool_choice"), tools),
        allowed=allowed_names(options.get("tool_choice"), tools),
        form=_form(options.get("response_format")),
        stop=tuple(options.get("stop") or ()),
        sampling=_sampling(options),
        limits=_limits(options, limits),
        reasoning=_reasoning(options, reasoning or Reasoning()),
    )


def _reasoning(options: Mapping[str, Any], own: Reasoning) -> Reasoning | None:
    """The model's own way of thinking with the effort and the template arguments that this call asks for."""
    effort, arguments = options.get("reasoning_effort"), options.get("chat_template_kwargs")
    if effort is None and arguments is None:
        return None
    if effort is not None and not isinstance(effort, str):
        raise ModelInvalidRequestError(f"reasoning_effort must be a word, such as 'low', got {effort!r}")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise ModelInvalidRequestError(f"chat_template_kwargs must be a mapping, got {arguments!r}")
    given = {**own.template_arguments, **cast("Mapping[str, Any]", arguments or {})}
    return replace(own, effort=own.effort if effort is None else effort, template_arguments=given)


def _form(said: Any) -> Tool[..., Any] | None:
    if isinstance(said, ResponseFormat):
        return said.form
    described: Mapping[str, Any] = {"type": "text"} if said is None else said
    match described:
        case {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return Tool.from_schema(_ANY_OBJECT, name="object")
        case {"type": "json_schema", "json_schema": {"schema": _} as wanted}:
            given = {"name": wanted.get("name", "output"), "parameters": wanted["schema"]}
            return schema_of(given, strict=wanted.get("strict")).tool
        case _:
            raise ModelInvalidRequestError(
                f"response_format {said!r} is not of type 'text', 'json_object' or 'json_schema' with a schema"
            )


def _sampling(options: Mapping[str, Any]) -> Sampling:
    """Without a seed every call draws anew; at temperature 0 nothing is drawn."""
    seed = options.get("seed")
    return Sampling(
        temperature=options.get("temperature") or 0.0,
        top_p=1.0 if options.get("top_p") is None else options["top_p"],
        seed=random.getrandbits(31) if seed is None else seed,
    )


def _limits(options: Mapping[str, Any], limits: Limits) -> Limits:
    """`max_tokens` bounds all that is sampled; free text before a call may take half of it, so that calls get done."""
    if (timeout := _seconds(options.get("timeout"))) is not None:
        limits = replace(limits, deadline_s=timeout)
    if (parallel := options.get("parallel_tool_calls")) is not None:
        limits = replace(limits, parallel_calls=max(limits.parallel_calls, _PARALLEL_CALLS) if parallel else 1)
    if (reasoning := options.get("reasoning_tokens")) is not None:
        limits = replace(limits, reasoning_tokens=reasoning)
    most = options.get("max_tokens")
    if most is None:
        return limits
    if most < 1:
        raise ModelInvalidRequestError(f"max_tokens must be at least 1, got {most}")
    return replace(
        limits,
        completion_tokens=most,
        answer_tokens=most,
        reasoning_tokens=min(limits.reasoning_tokens, max(most // 2, 1)),
        argument_tokens=min(limits.argument_tokens, most),
    )


def _seconds(timeout: float | Sequence[float | None] | None) -> float | None:
    """A timeout as LangChain's packages take it: seconds, or a pair of connecting and reading."""
    if isinstance(timeout, Sequence):
        return max((part for part in timeout if part is not None), default=None)
    return timeout
