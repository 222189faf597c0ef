"""What a server is started with, and what it refuses to be started with."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentform.errors import InvalidInput

__all__ = ["API_KEY_VARIABLE", "ServerSettings", "read_api_keys"]

API_KEY_VARIABLE = "AGENTFORM_API_KEY"
_LEAST_KEY_LENGTH = 16
_NOT_NEGATIVE = (
    "max_queued",
    "own_calls",
    "reasoning_tokens",
    "header_timeout_s",
    "body_timeout_s",
    "write_timeout_s",
    "deadline_s",
    "grace_s",
)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Where the server listens and how much it takes on.

    Raises:
        InvalidInput: another address than a loopback one without a key, a key that is too short, or a bad limit.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    """Any of them lets a client in; without one everybody who reaches the loopback address may use the server."""
    share_cache: bool = False
    """Whether holders of different keys share cached prefixes: faster where they say the same, and each can find out
    what another has said, from counts of cached tokens and from times."""
    served_name: str = ""
    """Name of the model towards clients, by default the engine's own."""
    max_running: int = 8
    """Requests that the engine works on at once."""
    max_queued: int = 32
    """Requests that wait for one of these to end; what comes on top is answered with 429."""
    max_body_bytes: int = 4 << 20
    body_timeout_s: float = 30.0
    """Seconds in which the body of a request must have arrived."""
    header_timeout_s: float = 10.0
    """Seconds in which the headers of a request must have arrived, and that a connection may be idle."""
    write_timeout_s: float = 30.0
    """Seconds in which a client must take some of what it is sent; one that does not is left."""
    deadline_s: float = 600.0
    """Seconds that a request may take in all, its time in the queue included."""
    grace_s: float = 30.0
    """Seconds that running requests get to end when the server is told to stop."""
    max_tokens: int = 1024
    """Tokens that are sampled for one request when it does not say how many."""
    reasoning_tokens: int = 256
    """Free text before the decision to call a tool or to answer, when a request does not say how much."""
    reasoning_format: Literal["auto", "none"] = "auto"
    """`auto`: the text before a call is told as reasoning, apart from answers, which with tools come once it is known
    that they are answers; `none`: it is content, as it comes."""
    responses_file: Path | None = None
    """Where answers of `/v1/responses` are kept; in memory, as far as there is room, where none is named."""
    page: bool = False
    """Whether there is a page at `/page` that shows turns as they happen. Its files are open without a key."""
    own_calls: int = 8
    """Calls of the server's own tools, at most, for one request; after these the model has to do without."""
    strict: bool = False
    """Whether fields that have no effect are refused, not ignored."""
    access_log: Literal["text", "json", "off"] = "text"
    """A line for each request: its id, method, path, status, seconds and tokens."""
    trace: bool = False
    """Whether requests are OpenTelemetry spans, which go on from a client's `traceparent`; the extra "otel" is needed.
    """

    def __post_init__(self) -> None:
        for name in ("max_running", "max_body_bytes", "max_tokens"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise InvalidInput(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.port <= 65535:
            raise InvalidInput(f"port must be between 0 and 65535, got {self.port}")
        if any(len(key) < _LEAST_KEY_LENGTH for key in self.api_keys):
            raise InvalidInput(f"an API key must have at least {_LEAST_KEY_LENGTH} characters")
        if not self.api_keys and not self.is_local:
            raise InvalidInput(
                f"to listen on {self.host} an API key is needed: set {API_KEY_VARIABLE} or give --api-key-file"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


def read_api_keys(file: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The keys in `file`, one a line, and the one in the variable AGENTFORM_API_KEY; never from the command line,
    which other users of the machine can read.

    Raises:
        InvalidInput: the file cannot be read or holds no key, or a key is not plain ASCII.
    """
    keys = [environment[API_KEY_VARIABLE].strip()] if environment.get(API_KEY_VARIABLE, "").strip() else []
    if file is not None:
        try:
            found = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read API keys from {file}: {error}") from error
        if not found:
            raise InvalidInput(f"{file} holds no API key: write one a line")
        keys += found
    if not all(key.isascii() and key.isprintable() and " " not in key for key in keys):
        raise InvalidInput("an API key must be printable ASCII without spaces")
    return tuple(keys)
