"""What a model's message says about a schema: the value, or an error that says why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from langchain_core.exceptions import ModelRefusalError, OutputParserException
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough

from langchain_agentform.schemas import Schema

__all__ = ["parsed", "with_raw"]


def parsed(schema: Schema, *, from_call: bool) -> Runnable[AIMessage, Any]:
    """Reads the message's first call, or its text.

    Raises (when it runs):
        OutputParserException: the message is cut off, or holds no valid value.
        ModelRefusalError: the model refused.
    """
    return RunnableLambda(partial(_value, schema=schema, text_of=_arguments if from_call else _text))


def with_raw(model: Runnable[Any, AIMessage], parser: Runnable[AIMessage, Any]) -> Runnable[Any, dict[str, Any]]:
    """The message under `raw`, its value under `parsed`, and what kept it from being read under `parsing_error`."""
    read = RunnablePassthrough.assign(parsed=_raw | parser, parsing_error=lambda _: None)
    unread = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=model) | read.with_fallbacks([unread], exception_key="parsing_error")


_raw: Runnable[dict[str, Any], AIMessage] = RunnableLambda(lambda made: made["raw"])


def _value(message: AIMessage, schema: Schema, text_of: Callable[[AIMessage], str]) -> Any:
    for block in message.content_blocks:
        if block["type"] == "refusal":
            raise ModelRefusalError.from_refusal(block, raw_message=message)
    text, why = text_of(message), message.response_metadata.get("error")
    try:
        if why is None:
            return schema.read(text)
    except ValueError as error:
        why = error
    raise OutputParserException(f"no valid {schema.tool.name}: {why}", llm_output=text)


def _text(message: AIMessage) -> str:
    return str(message.text)


def _arguments(message: AIMessage) -> str:
    return json.dumps(message.tool_calls[0]["args"], ensure_ascii=False) if message.tool_calls else ""
