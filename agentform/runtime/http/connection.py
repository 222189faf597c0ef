"""How a server is reached: address, key, certificates, limits."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentform.errors import InvalidRequest
from agentform.runtime.http.library import httpx
from agentform.runtime.http.retry_policy import RetryPolicy

__all__ = ["Connection"]

_HIGHEST_PORT = 65_535
_KEEP_ALIVE_S = 4.0  # SGLang, uvicorn and llama.cpp close an idle connection after five


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How a server is reached; see `SGLangServer` for what each field means."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    verify: bool = True
    ca_file: Path | str | None = None
    client_certificate: tuple[Path | str, Path | str] | Path | str | None = None
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 300.0
    max_connections: int = 256
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    async_transport: httpx.AsyncBaseTransport | None = field(default=None, repr=False)
    transport: httpx.BaseTransport | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            parts = httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise InvalidRequest(f"the server's address is not a URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.host:
            raise InvalidRequest(f"the server's address must begin with http:// or https:// and a host: {self.shown!r}")
        if parts.port is not None and not 0 < parts.port <= _HIGHEST_PORT:
            raise InvalidRequest(f"a port is a number from 1 to {_HIGHEST_PORT}: {self.shown!r}")
        key = self.api_key
        if key is not None and not (key and key.isascii() and key.isprintable() and " " not in key):
            raise InvalidRequest("api_key must be printable ASCII without spaces")

    @property
    def shown(self) -> str:
        """The address without what may be secret in it."""
        return str(httpx.URL(self.url).copy_with(userinfo=b"", query=None, fragment=None)).rstrip("/")

    def options(self) -> dict[str, Any]:
        """Arguments of httpx's clients.

        Raises:
            InvalidRequest: for certificates that cannot be read.
        """
        headers = dict(self.headers)
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key}"
        return {
            "base_url": self.url,
            "headers": headers,
            "verify": self._verify(),
            "timeout": httpx.Timeout(self.read_timeout_s, connect=self.connect_timeout_s, pool=None),
            "limits": httpx.Limits(
                max_connections=self.max_connections,
                max_keepalive_connections=self.max_connections,
                keepalive_expiry=_KEEP_ALIVE_S,
            ),
        }

    def _verify(self) -> ssl.SSLContext | bool:
        if httpx.URL(self.url).scheme == "http":
            return False  # saves reading all certificates for nothing
        try:
            if self.ca_file is not None and self.verify:
                context = ssl.create_default_context(cafile=self.ca_file)
            else:
                context = httpx.create_ssl_context(verify=self.verify)
            if self.client_certificate is not None:
                given = self.client_certificate
                certificate, key = given if isinstance(given, tuple) else (given, None)
                context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidRequest(f"the certificates for {self.shown} cannot be read: {error}") from error
        return context
