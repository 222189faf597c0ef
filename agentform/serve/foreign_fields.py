"""Fields that other servers know and this one does not: left alone, and named in a header of the answer.

A client that was written for vLLM, SGLang, llama.cpp or a router sends what those take, and sends messages back with
what they add. None of it may cost the answer; whoever sent it is told what had no effect.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from agentform.serve.exchange import Exchange
from agentform.serve.parsing import NoEffect, OpenFields
from agentform.serve.problems import bad_request

__all__ = ["HEADER", "ignored_fields", "require_no_slips", "tell_ignored"]

HEADER = "x-agentform-ignored"
_MOST_NAMED = 32
_LONGEST = 64
_CLOSE = 0.75
_NOT_IN_HEADERS = re.compile(r"[^A-Za-z0-9_.\[\]-]")
_OTHERS = """
add_generation_prompt add_special_tokens allowed_token_ids bad_words best_of bootstrap_host cache_prompt
cache_salt chat_template continue_final_message custom_logit_processor custom_params data_parallel_rank
detokenize documents dry_multiplier dynatemp_range early_stopping echo enable_thinking format
guided_decoding_backend guided_whitespace_pattern id_slot ignore_eos include_reasoning
include_stop_str_in_output keep_alive kv_transfer_params length_penalty logits_processors lora_path
min_new_tokens min_tokens mirostat mirostat_eta mirostat_tau mm_processor_kwargs models n_predict no_stop_trim
num_beams num_ctx options plugins priority prompt_logprobs provider reasoning reasoning_budget repeat_last_n
request_id return_hidden_states return_token_ids return_tokens_as_token_ids rid route safe_prompt samplers
separate_reasoning session_params skip_special_tokens spaces_between_special_tokens stop_regex stop_token_ids
stream_reasoning tfs_z thinking thinking_budget top_a transforms truncate_prompt_tokens truncation typical_p
usage use_beam_search vllm_xargs
"""
_USED = ("json", "choice", "regex", "grammar", "json_object")
_KNOWN = frozenset(_OTHERS.split())


def ignored_fields(fields: OpenFields) -> str:
    """The header's value: fields that were given and have no effect, the topmost first; empty where there are none."""
    named = [name for name, value in (fields.model_extra or {}).items() if value is not None]
    named += _without_effect(fields)
    below = dict.fromkeys([*_options(fields), *_extras(fields)])
    return ", ".join(map(_shown, [*named, *below][:_MOST_NAMED]))


def tell_ignored(fields: Any, exchange: Exchange, *, strict: bool) -> None:
    """Name in a header of the answer what has no effect.

    Raises:
        Refused: there is such a field, and the server is strict.
    """
    ignored = ignored_fields(fields)
    if not ignored:
        return
    # What others added to the past is no wish of whoever sends it back.
    wished = [name for name in ignored.split(", ") if not name.startswith("messages[]")]
    if strict and wished:
        message = f"these fields have no effect here, and the server is strict: {', '.join(wished)}"
        raise bad_request(message, param=wished[0], code="unsupported_parameter")
    exchange.headers[HEADER] = ignored


def require_no_slips(fields: OpenFields) -> None:
    """Check that no unknown field looks like a known one with a slip of the pen.

    Raises:
        Refused: one does.
    """
    for name in (fields.model_extra or {}).keys() - _KNOWN:
        if near := difflib.get_close_matches(name[:_LONGEST], type(fields).model_fields, n=1, cutoff=_CLOSE):
            shown = _shown(name)
            hint = f"unknown field {shown!r}; did you mean {near[0]!r}?"
            raise bad_request(hint, param=shown, code="unknown_parameter")


def _without_effect(fields: OpenFields) -> Iterator[str]:
    """Fields that are known to change nothing and were given another value than the usual one."""
    for name, field in type(fields).model_fields.items():
        marks = (mark for mark in field.metadata if isinstance(mark, NoEffect))
        value = getattr(fields, name)
        if value is not None and any(value != mark.usual for mark in marks):
            yield name


def _options(fields: OpenFields) -> Iterator[str]:
    """Of what is partly used, the other parts."""
    given: dict[str, Any] = getattr(fields, "structured_outputs", None) or {}
    yield from (f"structured_outputs.{key}" for key, value in given.items() if key not in _USED and value is not None)


def _extras(value: Any, place: str = "") -> Iterator[str]:
    """Where below the top level fields were given that are not known."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _extras(item, f"{place}[]")
        return
    if not isinstance(value, OpenFields):
        return
    for name in type(value).model_fields:
        if name in value.model_fields_set:
            yield from _extras(getattr(value, name), f"{place}.{name}" if place else name)
    if place:
        yield from (f"{place}.{name}" for name, given in (value.model_extra or {}).items() if given is not None)


def _shown(name: str) -> str:
    return _NOT_IN_HEADERS.sub("?", name[:_LONGEST])
