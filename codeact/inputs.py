"""Whether the data of a run is what it was when the run began."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

READ = 16 * 1024 * 1024
"""Bytes up to which a file is known by its content; a larger one, and those of a folder, by size and time of change."""


def fingerprint(path: Path) -> dict[str, Any]:
    """What a file or folder is known by. Raises OSError, but not for what a folder holds: that may be closed, or gone meanwhile."""
    if path.is_dir():
        lines = sorted(line for file in path.rglob("*") if (line := _line(file, path)) is not None)
        return {"files": len(lines), "digest": hashlib.sha256("\n".join(lines).encode()).hexdigest()}
    found = path.stat()
    known: dict[str, Any] = {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
    if found.st_size <= READ:
        known["digest"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return known


def _line(file: Path, root: Path) -> str | None:
    """A file of a folder; None for what is no file, or cannot be looked at."""
    try:
        found = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    name = os.fsencode(file.relative_to(root)).decode("utf-8", "backslashreplace")
    return f"{name} {found.st_size} {found.st_mtime_ns}"


def change(path: Path, known: Mapping[str, Any] | None) -> str | None:
    """How a file or folder differs from what was recorded of it, in words, or None. `known` is None where nothing was."""
    try:
        now = fingerprint(path)
    except FileNotFoundError:
        return "is not there any more"
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    if known is None:
        return None
    same = "digest" if "digest" in known and "digest" in now else "mtime_ns"
    if known.get(same) == now.get(same) and known.get("size") == now.get("size"):
        return None
    return "has changed since the run began"
