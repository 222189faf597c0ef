"""What SGLang says went wrong, as a typed error, and whether to ask again helps."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from agentform.errors import EngineError, GrammarError
from agentform.runtime.http import failures
from agentform.runtime.http.failures import Failure
from agentform.runtime.sglang.wire.replies import error_of

__all__ = ["of_event", "of_status", "refused", "understood"]


def refused(said: str) -> EngineError | GrammarError:
    """Of a request that SGLang does not take."""
    return error_of(said, status=400)


def of_status(status: int, headers: Mapping[str, str], body: bytes, where: str) -> Failure:
    """Of a reply whose status is not 200."""
    return failures.of_status(status, headers, body, where, refused=refused)


def of_event(reply: Mapping[str, Any], where: str) -> Failure | None:
    """Of an event of a stream that reports an error: the status was 200 before the server knew."""
    reason = (reply.get("meta_info") or {}).get("finish_reason")
    if "error" in reply:
        found = reply["error"] if isinstance(reply["error"], Mapping) else {"message": reply["error"]}
        message, code = found.get("message"), found.get("code")
    elif isinstance(reason, Mapping) and reason.get("type") == "abort":
        message, code = reason.get("message"), reason.get("status_code")
    else:
        return None
    body = json.dumps({"message": str(message or "aborted")}).encode()
    return of_status(code if isinstance(code, int) else 500, {}, body, where)


@contextmanager
def understood(where: str) -> Generator[None, None, None]:
    """What reads a reply as SGLang writes them fails, in here, only over one that SGLang did not write.

    Raises:
        ReplyMalformed: it failed.
    """
    with failures.understood(where, "SGLang"):
        yield
