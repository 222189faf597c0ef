"""Which SGLang this is made for, checked before anything of it runs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from agentform._util.install import install_line
from agentform.errors import EngineError, MissingDependency

__all__ = ["SUPPORTED_VERSIONS", "check_version"]

SUPPORTED_VERSIONS = ("0.5.21",)
"""Releases of SGLang that the tests ran with."""


def check_version() -> str:
    """The installed version.

    Raises:
        MissingDependency: SGLang is not installed.
        EngineError: for a version that is not supported.
    """
    try:
        found = version("sglang")
    except PackageNotFoundError as error:
        raise MissingDependency(
            f"sglang is needed for models named sglang:…; {install_line('sglang')}, see docs/sglang.md"
        ) from error
    if found not in SUPPORTED_VERSIONS:
        raise EngineError(
            f"sglang {found} is installed; agentform supports {', '.join(SUPPORTED_VERSIONS)}: "
            f"pip install sglang=={SUPPORTED_VERSIONS[-1]}"
        )
    return found
