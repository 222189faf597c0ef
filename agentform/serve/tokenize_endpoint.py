"""`POST /tokenize` and `POST /detokenize`, as vLLM's and llama.cpp's clients know them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from agentform.runtime.engine import Sampling
from agentform.serve.chat_request import asked_tool, past_messages
from agentform.serve.completions_fields import DetokenizeFields, TokenizeFields
from agentform.serve.exchange import Exchange
from agentform.serve.parsing import parse
from agentform.serve.problems import bad_request
from agentform.serve.turn_request import TurnBudget, TurnRequest
from agentform.serve.turns import PreparedTurn, Turns

__all__ = ["TokenizeEndpoint"]

_MOST_CHARACTERS = 1_000_000
"""Of one text; each may be a token, and an answer is some bytes for each."""


class TokenizeEndpoint:
    """Tells what a text or a conversation is to the model."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def tokens(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request for the tokens of a text or of messages.

        Raises:
            Refused: the request is none that can be served.
        """
        fields = parse(TokenizeFields, body)
        if fields.model is not None:
            self._turns.require_model(fields.model)
        if fields.messages is not None:
            return partial(self._of_messages, self._prepared(fields, exchange), fields)
        text = fields.prompt if fields.prompt is not None else fields.content
        if text is None:
            raise bad_request("give a prompt, content or messages", param="prompt", code="missing_required_parameter")
        if len(text) > _MOST_CHARACTERS:
            message = f"the text has {len(text):,} characters; at most {_MOST_CHARACTERS:,} are tokenised at once"
            raise bad_request(message, param="prompt" if fields.prompt is not None else "content")
        ids = self._turns.clients.of(exchange.request).engine.tokenizer.encode(text)
        told = self._body(ids, fields, exchange)
        return lambda exchange: exchange.answer(told, is_large=True)

    def text(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request for the text of tokens.

        Raises:
            Refused: the request is none that can be served.
        """
        fields = parse(DetokenizeFields, body)
        engine = self._turns.clients.of(exchange.request).engine
        if any(id >= engine.info.vocabulary_size for id in fields.tokens):
            raise bad_request(f"token ids are below {engine.info.vocabulary_size}", param="tokens")
        text = engine.tokenizer.decode(fields.tokens)
        return lambda exchange: exchange.answer({"prompt": text, "content": text}, is_large=True)

    def _prepared(self, fields: TokenizeFields, exchange: Exchange) -> PreparedTurn:
        budget = TurnBudget(settings=self._turns.settings, asked=None)
        request = TurnRequest(
            messages=past_messages(fields.messages or (), thinks=self._turns.thinks(exchange)),
            tools=tuple(map(asked_tool, fields.tools or ())),
            limits=budget.limits(),
            reasoning=budget.reasoning(),
            sampling=Sampling(),
        )
        return self._turns.prepare(exchange, request)

    async def _of_messages(self, turn: PreparedTurn, fields: TokenizeFields, exchange: Exchange) -> None:
        await exchange.answer(self._body(await turn.prompt_ids(), fields, exchange))

    def _body(self, ids: tuple[int, ...], fields: TokenizeFields, exchange: Exchange) -> dict[str, Any]:
        engine = self._turns.clients.of(exchange.request).engine
        body: dict[str, Any] = {"count": len(ids), "max_model_len": engine.info.context_tokens, "tokens": list(ids)}
        if fields.return_token_strs:
            body["token_strs"] = [engine.tokenizer.decode((id,)) for id in ids]
        return body
