"""Bodies as httpx sends them."""

from __future__ import annotations

import httpx
import pytest

from agentform.runtime.http.cancellable import cancellable

pytestmark = pytest.mark.anyio


async def test_a_body_is_sent_whole_with_its_length():
    async def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=await request.aread(), headers={"seen": request.headers["content-length"]})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://host") as client:
        request = client.build_request("POST", "/generate", content=b'{"a": 1}')
        response = await client.send(cancellable(request))
    assert (response.content, response.headers["seen"]) == (b'{"a": 1}', "8")


async def test_a_body_that_is_begun_and_dropped_leaves_no_generator_behind():
    request = cancellable(httpx.Request("POST", "http://host/generate", content=b"body"))
    assert isinstance(request.stream, httpx.AsyncByteStream)
    pieces = request.stream.__aiter__()
    assert await anext(pieces) == b"body"
    assert not hasattr(pieces, "aclose")
    assert [piece async for piece in request.stream] == [b"body"]  # and it can be sent again
