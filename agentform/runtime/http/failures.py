"""What went wrong between here and a server, as a typed error, and whether to ask again helps."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from agentform.errors import (
    EngineError,
    EngineUnauthorized,
    EngineUnavailable,
    GrammarError,
    InvalidRequest,
    ReplyMalformed,
)
from agentform.runtime.http.library import httpx
from agentform.runtime.http.retry_policy import retry_after_s

__all__ = ["Failure", "RefusalOf", "message_of", "of_exception", "of_status", "understood"]

RefusalOf = Callable[[str], EngineError | GrammarError]
"""From what a server says of a request that it does not take, its error."""

_NO_ROOM = frozenset((429, 502, 503, 504))
_LOST = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.ReadError,
    httpx.WriteError,
    httpx.CloseError,
    httpx.RemoteProtocolError,
)


class Failure(Exception):
    """A try that failed; stays within the engines."""

    def __init__(
        self,
        error: EngineError | GrammarError,
        *,
        again: bool = False,
        lost: bool = False,
        after_s: float | None = None,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        """Whether the same request may succeed later."""
        self.lost = lost
        """Whether the server was not there, and so may come back as another one."""
        self.after_s = after_s


def of_exception(error: httpx.HTTPError, where: str) -> Failure:
    """Of what httpx raised; `where` is the server's address as it may be shown."""
    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, httpx.RemoteProtocolError) and "illegal" in said:
        return Failure(EngineUnavailable(f"what answers at {where} does not speak HTTP: {said}"))
    if isinstance(error, _LOST):
        if _is_about_certificates(error):
            plain = "; what answers there may speak http:// only" if "WRONG_VERSION" in said else ""
            return Failure(EngineUnavailable(f"{where}: no trusted connection: {said}; see ca_file and verify{plain}"))
        return Failure(EngineUnavailable(f"{where} cannot be reached: {said}"), again=True, lost=True)
    if isinstance(error, httpx.TimeoutException):
        kind = type(error).__name__
        return Failure(EngineUnavailable(f"{where} was silent for too long ({kind}); see read_timeout_s"))
    if isinstance(error, httpx.DecodingError):
        return Failure(ReplyMalformed(f"{where} sent a body that cannot be decoded: {said}"))
    return Failure(EngineUnavailable(f"{where} cannot be asked: {said}"))


def of_status(
    status: int, headers: Mapping[str, str], body: bytes, where: str, *, refused: RefusalOf = InvalidRequest
) -> Failure:
    """Of a reply whose status is not 200."""
    said = message_of(body) or "no reason given"
    if status in (401, 403):
        return Failure(EngineUnauthorized(f"{where} refuses this client ({status}): {said}; see api_key"))
    # The word of SGLang's router for a worker that it could not reach.
    upstream = status == 500 and headers.get("x-smg-error-code", "").startswith("call_upstream")
    if status in _NO_ROOM or upstream:
        error = EngineUnavailable(f"{where} cannot serve this now ({status}): {said}")
        return Failure(error, again=True, lost=status == 502 or upstream, after_s=retry_after_s(headers))
    if status in (400, 413, 422):
        return Failure(refused(said))
    if 300 <= status < 400:
        return Failure(EngineError(f"{where} redirects ({status}); give the address that it redirects to"))
    return Failure(EngineError(f"{where} answered {status}: {said}"))


def message_of(body: bytes) -> str:
    """What the body of a refusal says, on one line."""
    text = body.decode(errors="replace")
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = text
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and key in found:
            found = cast("Any", found[key])
    return " ".join(str(found).split())[:2000]


@contextmanager
def understood(where: str, whose: str) -> Generator[None, None, None]:
    """What reads a reply as `whose` server writes them fails, in here, only over one that it did not write.

    Raises:
        ReplyMalformed: it failed.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ReplyMalformed(f"{where} sent a reply that is not {whose}'s: {error!r}") from error


def _is_about_certificates(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
