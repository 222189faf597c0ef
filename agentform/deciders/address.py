"""Addresses of System One endpoints."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

__all__ = ["endpoint_of"]

_USUAL = "/v1/systemone"


def endpoint_of(url: str) -> tuple[str, str]:
    """The server's address, and the path to ask; a server alone, or its ``/v1``, is completed.

    Examples:
        >>> endpoint_of("http://localhost:8000")
        ('http://localhost:8000', '/v1/systemone')
        >>> endpoint_of("https://models.example/api/v1")
        ('https://models.example', '/api/v1/systemone')
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not path:
        path = _USUAL
    elif path.endswith("/v1"):
        path += "/systemone"
    return urlunsplit((parts.scheme, parts.netloc, "", parts.query, "")), path
