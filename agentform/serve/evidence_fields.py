"""How it was decided what an answer holds, as JSON: agentform's own addition to every API, for who asks for it.

A request asks with the field `agentform: {"evidence": true}` or the header `x-agentform-evidence: true`.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from agentform.agent.responder import Response, TokenLogprob
from agentform.messages import Evidence, ToolCall
from agentform.schema.json_text import to_jsonable
from agentform.serve.own_tools import LoopResponse, RanCall
from agentform.serve.parsing import Fields

__all__ = ["ExtensionFields", "evidence_body", "logprob_bodies", "response_evidence", "wants_evidence"]

HEADER = "x-agentform-evidence"


class ExtensionFields(Fields):
    """What a request asks of agentform alone."""

    evidence: bool = False


def wants_evidence(fields: ExtensionFields | None, request: Request) -> bool:
    """Whether a request asks how its answer was decided."""
    if fields is not None:
        return fields.evidence
    return request.headers.get(HEADER, "").strip().lower() in ("1", "true", "yes")


def evidence_body(evidence: Evidence) -> dict[str, Any]:
    """How one value was decided; what is not known of it is null."""
    return {
        "pointer": evidence.pointer,
        "value": to_jsonable(evidence.value),
        "how": evidence.how,
        "probability": evidence.probability,
        "raw_probability": evidence.raw_probability,
        "legal_mass": evidence.legal_mass,
        "gap": evidence.gap,
        "alternatives": [
            {"value": to_jsonable(other.value), "probability": other.probability} for other in evidence.alternatives
        ],
        "by": evidence.by or None,
        "ways": evidence.ways,
    }


def response_evidence(response: Response) -> dict[str, Any]:
    """Of a whole answer: of the decision to call or to answer, of each call's arguments, of a form's leaves.

    Before that, what the server ran of its own tools.
    """
    ran = {"ran": [_ran(each) for each in response.ran]} if isinstance(response, LoopResponse) and response.ran else {}
    return ran | {
        "decision": None if response.decision is None else evidence_body(response.decision),
        "calls": [_call(call) for call in response.calls],
        "output": [evidence_body(each) for each in response.evidence],
        "usage": {
            "computed_tokens": response.usage.computed_tokens,
            "cached_tokens": response.prompt_usage.cached_tokens,
            "miss": response.prompt_usage.miss,
        },
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "decision": None if call.decision is None else evidence_body(call.decision),
        "arguments": [evidence_body(each) for each in call.evidence],
    }


def _ran(ran: RanCall) -> dict[str, Any]:
    """A call that was run here: what it was given, how that was decided, and what came of it."""
    result = {"content": ran.result.content, "is_error": ran.result.is_error}
    return _call(ran.call) | {"input": to_jsonable(dict(ran.call.arguments)), "result": result}


def logprob_bodies(tokens: tuple[TokenLogprob, ...]) -> list[dict[str, Any]]:
    """Tokens as OpenAI's APIs tell them."""
    return [_token(token) | {"top_logprobs": [_token(other) for other in token.top]} for token in tokens]


def _token(token: TokenLogprob) -> dict[str, Any]:
    return {"token": token.text, "logprob": token.logprob, "bytes": list(token.text.encode(errors="replace"))}
