"""A build context as a tar stream in which nothing depends on the machine: names, contents and modes only."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

_IN_MEMORY = 8 * 1024**2


def pack(contents: Iterable[tuple[str, bytes | Path]]) -> IO[bytes]:
    """A tar file of (name, content) pairs, at its start; the caller closes it. Owner is root, time is the epoch."""
    archive = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in contents:
            entry = tarfile.TarInfo(name)
            entry.mode = 0o644
            if isinstance(content, Path):
                entry.size = content.stat().st_size
                with content.open("rb") as file:
                    tar.addfile(entry, file)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    archive.seek(0)
    return archive
