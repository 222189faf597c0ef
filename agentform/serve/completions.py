"""`POST /v1/completions`: a text is gone on with, without a chat template."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agentform._util.gather import at_once
from agentform.agent.token_logprobs import TokenLogprob, ids_of_text, token_logprobs
from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.errors import ContextOverflow
from agentform.grammar.spec import GrammarSpec
from agentform.messages import Usage
from agentform.runtime.engine import Chunk, Engine, Sampling
from agentform.serve.answer_format import grammar_of
from agentform.serve.completions_fields import CompletionFields
from agentform.serve.exchange import Exchange
from agentform.serve.foreign_fields import tell_ignored
from agentform.serve.parsing import parse
from agentform.serve.problems import bad_request
from agentform.serve.request_record import count_tokens
from agentform.serve.turns import Turns

__all__ = ["CompletionsEndpoint"]

_MOST_TEXTS = 64
_FINISH = {"length": "length"}


@dataclass(frozen=True, kw_only=True)
class _Continuation:
    """A text that is to be gone on with."""

    engine: Engine
    fields: CompletionFields
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    grammar: GrammarSpec | None
    stop: tuple[str, ...]

    @property
    def max_tokens(self) -> int:
        return 16 if self.fields.max_tokens is None else self.fields.max_tokens


@dataclass(kw_only=True)
class _ContinuedText:
    """What was written, and what it cost."""

    asked: _Continuation
    session: Session
    text: str = ""
    ids: tuple[int, ...] = ()
    finish: str = "length"
    usage: Usage = field(default_factory=Usage)

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """Write, piece by piece."""
        asked = self.asked
        if not asked.max_tokens:
            return
        stream = self.session.generate(
            asked.prompt_ids, max_tokens=asked.max_tokens, stop=asked.stop, grammar=asked.grammar
        )
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                self.text, self.ids = self.text + chunk.text, self.ids + chunk.token_ids
                if chunk.finish is not None:
                    self.finish = _FINISH.get(chunk.finish, "stop")
                yield chunk
        self.usage = self.session.usage

    async def logprobs(self) -> dict[str, Any] | None:
        """Of the tokens, in the shape of this API."""
        asked, num = self.asked, self.asked.fields.logprobs
        if num is None:
            return None
        tokenizer = self.session.tokenizer
        begin, end = ids_of_text(tokenizer, self.ids, self.text) if self.text else (0, 0)
        ids = self.ids[begin:end]
        if not asked.fields.echo:
            found = await token_logprobs(self.session, asked.prompt_ids + self.ids[:begin], ids, num_top=num)
            return _logprob_body(found)
        first = asked.prompt_ids[:1]
        head = TokenLogprob(token_id=first[0], text=tokenizer.decode(first), logprob=None)
        rest = await token_logprobs(self.session, first, asked.prompt_ids[1:] + ids, num_top=num)
        return _logprob_body((head, *rest))


class CompletionsEndpoint:
    """Goes on with texts."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def handler(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request.

        Raises:
            Refused: the request is none that can be served.
        """
        fields = parse(CompletionFields, body)
        self._turns.require_model(fields.model)
        tell_ignored(fields, exchange, strict=self._turns.settings.strict)
        asked = self._asked(fields, self._turns.clients.of(exchange.request).engine)
        if not fields.stream:
            return partial(self._whole, fields, asked)
        if fields.logprobs is not None or len(asked) > 1 or fields.echo:
            raise bad_request("a stream has one text, without logprobs and echo", param="stream")
        return partial(self._stream, fields, asked[0])

    def _asked(self, fields: CompletionFields, engine: Engine) -> list[_Continuation]:
        num, prompts = fields.n or 1, _prompts(fields)
        if len(prompts) * num > _MOST_TEXTS:
            raise bad_request(f"prompt and n ask for more than {_MOST_TEXTS} texts", param="n")
        sampling = fields.sampling()
        stop = (fields.stop,) if isinstance(fields.stop, str) else tuple(fields.stop or ())
        grammar = grammar_of(fields)
        return [
            _Continuation(
                engine=engine,
                fields=fields,
                prompt_ids=_ids(engine, prompt, at),
                sampling=replace(sampling, seed=(sampling.seed + number) % 2**63),
                grammar=grammar,
                stop=stop,
            )
            for at, prompt in enumerate(prompts)
            for number in range(num)
        ]

    async def _whole(self, fields: CompletionFields, asked: Sequence[_Continuation], exchange: Exchange) -> None:
        done = await at_once([partial(_write, each) for each in asked])
        choices = [
            {
                "index": at,
                "text": (_prompt_text(written.asked) if fields.echo else "") + written.text,
                "logprobs": logprobs,
                "finish_reason": written.finish,
            }
            for at, (written, logprobs) in enumerate(done)
        ]
        self._count(exchange, [written for written, _ in done])
        body = _head(self._turns.model) | {"choices": choices, "usage": _usage([written for written, _ in done])}
        await exchange.answer(body)

    async def _stream(self, fields: CompletionFields, asked: _Continuation, exchange: Exchange) -> None:
        head, written = _head(self._turns.model), _begun(asked)
        async with aclosing(written.chunks()) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    choice = {"index": 0, "text": chunk.text, "logprobs": None, "finish_reason": None}
                    await exchange.event(head | {"choices": [choice]})
        choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": written.finish}
        await exchange.event(head | {"choices": [choice]})
        if fields.stream_options is not None and fields.stream_options.include_usage:
            await exchange.event(head | {"choices": [], "usage": _usage([written])})
        self._count(exchange, [written])
        await exchange.end()

    def _count(self, exchange: Exchange, texts: Sequence[_ContinuedText]) -> None:
        for written in texts:
            count_tokens(exchange.request.scope, self._turns.metrics, written.usage, written.usage)


def _begun(asked: _Continuation) -> _ContinuedText:
    return _ContinuedText(asked=asked, session=Session(asked.engine, limits=Limits(), sampling=asked.sampling))


async def _write(asked: _Continuation) -> tuple[_ContinuedText, dict[str, Any] | None]:
    written = _begun(asked)
    async with aclosing(written.chunks()) as chunks:
        async for _ in chunks:
            pass
    return written, await written.logprobs()


def _prompts(fields: CompletionFields) -> list[str | list[int]]:
    said: Any = fields.prompt
    return [said] if isinstance(said, str) or (said and isinstance(said[0], int)) else list(said)


def _ids(engine: Engine, prompt: str | list[int], at: int) -> tuple[int, ...]:
    """Text is text: no control token comes of it."""
    if isinstance(prompt, str) and len(prompt) > 64 * engine.info.context_tokens:
        raise ContextOverflow(prompt_tokens=len(prompt), context_tokens=engine.info.context_tokens)
    ids = engine.tokenizer.encode(prompt) if isinstance(prompt, str) else tuple(prompt)
    if not ids:
        raise bad_request("a prompt needs at least one token", param=f"prompt[{at}]")
    if max(ids) >= engine.info.vocabulary_size:
        raise bad_request(f"token ids are below {engine.info.vocabulary_size}", param=f"prompt[{at}]")
    return ids


def _prompt_text(asked: _Continuation) -> str:
    return asked.engine.tokenizer.decode(asked.prompt_ids)


def _head(model: str) -> dict[str, Any]:
    return {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time()), "model": model}


def _usage(texts: Sequence[_ContinuedText]) -> dict[str, Any]:
    prompt = sum(len(written.asked.prompt_ids) for written in texts)
    completion = sum(written.usage.completion_tokens for written in texts)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _logprob_body(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    offsets, at = list[int](), 0
    for token in tokens:
        offsets.append(at)
        at += len(token.text)
    tops = [None if t.logprob is None else {other.text: other.logprob for other in t.top} for t in tokens]
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": tops if any(token.top for token in tokens) else None,
        "text_offset": offsets,
    }
