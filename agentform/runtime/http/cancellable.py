"""Bodies of requests that may be cancelled while they are sent."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agentform.runtime.http.library import httpx

__all__ = ["cancellable"]


class _PlainBody(httpx.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._content)


class _Once(AsyncIterator[bytes]):
    def __init__(self, content: bytes) -> None:
        self._left = [content]

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


def cancellable(request: httpx.Request) -> httpx.Request:
    """The request with a plain iterator as its body.

    httpx's own is an async generator, which a cancelled request leaves to the garbage collector; trio warns of it.
    """
    request.stream = _PlainBody(request.content)
    return request
