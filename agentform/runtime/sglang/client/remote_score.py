"""One score over HTTP: the prompt first, then its branches, as a batch or one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from agentform._util.gather import at_once
from agentform.runtime.engine import ScoreRequest, ScoreResult
from agentform.runtime.http.transport import Transport
from agentform.runtime.sglang.client.server_info import Served
from agentform.runtime.sglang.wire.failures import understood
from agentform.runtime.sglang.wire.replies import ScoreReading
from agentform.runtime.sglang.wire.requests import PathCandidates, plan_score, score_body, warm_body

__all__ = ["RemoteScore"]

_MOST_BATCH_TOKENS = 1 << 18
"""Token ids in the body of one batch."""


class RemoteScore:
    """How one server, or router, is asked for scores."""

    def __init__(self, transport: Transport, served: Served) -> None:
        self._transport = transport
        self._served = served

    async def ask(self, request: ScoreRequest, headers: Mapping[str, str]) -> ScoreResult:
        """Ask for the score in the batches that its plan has.

        Raises:
            AgentformError: what `Transport.ask` raises, and what `ScoreReading` makes of a refusal.
            ReplyMalformed: the reply is not what was asked for.
        """
        longest = len(request.prompt_ids) + max((len(branch.path) for branch in request.branches), default=0)
        plan = plan_score(request, max(1, min(self._served.most_branches, _MOST_BATCH_TOKENS // longest)))
        reading = ScoreReading(request)
        if plan.warm:
            reply = await self._transport.ask("/generate", warm_body(request), headers=headers)
            with understood(self._transport.where):
                reading.warmed(reply)
        for batch in plan.batches:
            replies = await self._answers(request, batch, headers)
            with understood(self._transport.where):
                reading.answered(batch, replies)
        return reading.result()

    async def _answers(
        self, request: ScoreRequest, batch: Sequence[PathCandidates], headers: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """A router gets one request per question: it takes one list of candidates only, and sends a batch wherever its
        whole text fits best, which need not be where the prompt is cached."""
        if not self._served.is_router:
            return await self._transport.ask("/generate", score_body(request, batch), headers=headers)

        async def ask(question: PathCandidates) -> dict[str, Any]:
            body = score_body(request, [question])
            single = body | {key: body[key][0] for key in ("input_ids", "token_ids_logprob")}
            return await self._transport.ask("/generate", single, headers=headers)

        return await at_once([partial(ask, question) for question in batch])
