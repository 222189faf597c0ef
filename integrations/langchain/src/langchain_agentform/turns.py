"""One turn of a model for LangChain: messages and options in, a message or chunks out."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

from agentform import Limits, PriorStore, Reasoning, Responder, Response, Scoring
from agentform.errors import CallError
from langchain_agentform.engines import EngineSource
from langchain_agentform.errors import langchain_errors
from langchain_agentform.messages import to_messages
from langchain_agentform.replies import Reply, failed, failed_chunk, last_chunk, message
from langchain_agentform.requests import request_of

__all__ = ["Turns"]


@dataclass(kw_only=True)
class Turns:
    """Takes turns on one engine, which is given or loaded when it is first needed. Copies share it."""

    name: str
    source: EngineSource
    limits: Limits
    scoring: Scoring | None
    reasoning: Reasoning | None
    priors: PriorStore | None
    _responder: Responder | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def responder(self) -> Responder:
        """What takes the turns; the first call may load the engine, which takes seconds.

        Raises:
            ModelError: the engine cannot be loaded.
        """
        with self._lock:
            if self._responder is None:
                self._responder = Responder(
                    self.source.get(),
                    limits=self.limits,
                    scoring=self.scoring,
                    reasoning=self.reasoning,
                    priors=self.priors,
                )
            return self._responder

    async def message(
        self, messages: Sequence[BaseMessage], options: Mapping[str, Any], conversation: str | None
    ) -> AIMessage:
        """The turn as one message.

        Raises:
            ModelError: what is asked for cannot be done; a call or form that could not be completed is no error.
        """
        reply = self._reply(options)
        try:
            response = await self._respond(reply, messages, options, conversation)
        except CallError as error:
            return failed(reply, error)
        return failed(reply, response.truncated, response) if response.truncated else message(reply, response)

    def chunks(
        self, messages: Sequence[BaseMessage], options: Mapping[str, Any], conversation: str | None
    ) -> Callable[[Callable[[AIMessageChunk], None]], Awaitable[None]]:
        """Work that hands out the turn's chunks. Raises, when it runs, what `message` raises."""

        async def work(put: Callable[[AIMessageChunk], None]) -> None:
            reply = self._reply(options, put)
            try:
                response = await self._respond(reply, messages, options, conversation)
            except CallError as error:
                put(failed_chunk(reply, error))
                return
            cut_off = response.truncated
            put(failed_chunk(reply, cut_off, response) if cut_off else last_chunk(reply, response))

        return work

    def _reply(self, options: Mapping[str, Any], hand_out: Callable[[AIMessageChunk], None] | None = None) -> Reply:
        has_note = bool(self.reasoning and self.reasoning.prefix) or options.get("response_format") is not None
        return Reply(model_name=self.name, hide_notes=has_note, hand_out=hand_out)

    async def _respond(
        self, reply: Reply, messages: Sequence[BaseMessage], options: Mapping[str, Any], conversation: str | None
    ) -> Response:
        """The turn. A CallError stays one, also where it is a ModelError too."""
        if options.get("model", self.name) != self.name:
            raise ModelInvalidRequestError(
                f"this is {self.name!r}; for {options['model']!r} make another ChatAgentform"
            )
        with langchain_errors():
            request = request_of(options, self.limits, self.reasoning)
            responder = self._responder or await anyio.to_thread.run_sync(self.responder)
            return await responder.respond(
                to_messages(messages),
                tools=request.tools,
                tool_choice=request.tool_choice,
                allowed=request.allowed,
                output=request.form.target if request.form else None,
                stop=request.stop,
                sampling=request.sampling,
                limits=request.limits,
                conversation=conversation,
                reasoning=request.reasoning,
                emit=reply.on_event,
            )

    def __deepcopy__(self, memo: Any) -> Turns:
        return self
