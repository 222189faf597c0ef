"""Bodies that come compressed: opened within the limit that holds for bodies as they are."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from agentform.serve.problems import Problem, Refused, bad_request

__all__ = ["opened"]

_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_PIECE = 1 << 16


def opened(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """The body without its `Content-Encoding`: none, `identity` or, where Python can read it, `zstd`.

    Raises:
        Refused: 415 for another encoding, 413 when there is more than `limit_bytes` in it, 400 when it is damaged.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    zstd = _zstd() if encoding == "zstd" else None
    if zstd is None:
        message = f"content-encoding {encoding[:40]!r} is not taken here; send the body as it is"
        raise Refused(Problem(status=415, code="unsupported_encoding", message=message))
    return _unpacked(zstd, body, limit_bytes)


def _zstd() -> Any:
    """The module that reads zstd, if there is one."""
    try:
        return importlib.import_module(_MODULE)
    except ImportError:
        return None


def _unpacked(zstd: Any, body: bytes, limit_bytes: int) -> bytes:
    reader, found, left = zstd.ZstdDecompressor(), bytearray(), body
    try:
        while not reader.eof and (left or not reader.needs_input):
            found += reader.decompress(left, max_length=_PIECE)
            left = b""
            if len(found) > limit_bytes:
                message = f"the body is larger than {limit_bytes:,} bytes"
                raise Refused(Problem(status=413, code="request_too_large", message=message))
    except zstd.ZstdError:
        raise bad_request("the body is no zstd", param=None, code="invalid_encoding") from None
    if not reader.eof or reader.unused_data:
        raise bad_request("the body is not one whole zstd frame", param=None, code="invalid_encoding")
    return bytes(found)
