"""What is here of a model that is served elsewhere: its tokenizer, and what is known of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentform.errors import InvalidRequest, ModelMismatch, ModelNotFound
from agentform.runtime.engine import ModelInfo
from agentform.runtime.models.resolve import resolve_tokenizer
from agentform.runtime.models.tuned_scoring import read_scoring
from agentform.runtime.sglang.client.server_info import Served
from agentform.runtime.tokenizer.chat_template import read_json
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer

__all__ = ["remote_info", "remote_tokenizer"]


def remote_tokenizer(given: HFTokenizer | Path | str | None, served: Served, where: str) -> HFTokenizer:
    """The tokenizer given, or the one that the server names.

    Raises:
        ModelNotFound: the name is neither in the catalogue, nor a folder, nor a hub id.
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: an optional package is not installed.
    """
    if isinstance(given, HFTokenizer):
        return given
    name = str(given) if given is not None else served.tokenizer_path or ""
    try:
        return HFTokenizer(resolve_tokenizer(name))
    except ModelNotFound as error:
        if given is not None:
            raise
        raise ModelNotFound(
            f"{where} has its tokenizer from {name!r}, which is not here: give tokenizer=, a folder, hub id or "
            "catalogue name"
        ) from error


def remote_info(name: str | None, context_tokens: int | None, served: Served, tokenizer: HFTokenizer) -> ModelInfo:
    """From what was given, what the server says and the tokenizer's folder, in this order.

    Raises:
        InvalidRequest: nobody knows the context.
        ModelMismatch: it is not as long as was given.
    """
    config = read_json(tokenizer.folder / "config.json")
    config = config.get("text_config", config)
    context = context_tokens or served.context_tokens or config.get("max_position_embeddings")
    if not context:
        raise InvalidRequest("neither the server nor a config.json says how long the context is; give context_tokens")
    if served.context_tokens is not None and context > served.context_tokens:
        raise ModelMismatch(f"the context is {served.context_tokens:,} tokens, not the {context:,} that were given")
    said = [served.identity, served.dtype, tokenizer.tokenizer_json]
    digest = f"sglang:{hashlib.sha256(chr(10).join(said).encode()).hexdigest()}"
    return ModelInfo(
        name=name or served.name,
        digest=digest,
        context_tokens=context,
        # A token id that a model does not have kills an SGLang server.
        vocabulary_size=min(tokenizer.vocabulary_size, config.get("vocab_size", tokenizer.vocabulary_size)),
        scoring=read_scoring(digest),
    )
