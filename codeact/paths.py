"""Whether what somebody wrote is a path to something. `pathlib` raises for a text that is too long to be one."""

from __future__ import annotations

from pathlib import Path


def is_file(path: str | Path) -> bool:
    """Whether a file is there, and may be looked at."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def exists(path: str | Path) -> bool:
    """Whether anything is there, and may be looked at."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False
