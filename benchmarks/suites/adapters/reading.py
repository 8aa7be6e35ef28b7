"""Reading what the user has, with one line where it is not what is expected."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from codeact.errors import UsageError

T = TypeVar("T")
MOST_FOLDERS = 5_000
"""That a copy is looked for in."""


def folder(path: Path, suite: str, *needed: str) -> Path:
    """The given folder, or the nearest one below it, which holds all that is needed. Raises UsageError."""
    if not path.is_dir():
        raise UsageError(f"{path}: there is no such folder; give the one of your copy of {suite}")
    left = deque([path])
    for _ in range(MOST_FOLDERS):
        if not left:
            raise UsageError(
                f"{path}: this is no copy of {suite}: there is no folder in it that holds {', '.join(needed)}"
            )
        each = left.popleft()
        if all((each / name).exists() for name in needed):
            return each
        with contextlib.suppress(PermissionError):
            left += sorted(child for child in each.iterdir() if child.is_dir() and not child.is_symlink())
    raise UsageError(
        f"{path}: holds more than {MOST_FOLDERS:,} folders; give the one that holds {', '.join(needed)}"
    )


def inside(root: Path, name: str, whose: str) -> Path:
    """A file of the copy that a question names. Raises UsageError where there is none, and where it lies elsewhere: what a
    question may have read is shown to a model."""
    file = root / name
    if "\0" in name or not file.is_file():
        raise UsageError(f"{file}: there is no such file, which the question {whose} needs")
    if not file.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{file}: lies outside of {root}, and the question {whose} needs it; copy it there")
    return file


def text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def parsed(path: Path) -> Any:
    try:
        return json.loads(text(path))
    except ValueError as error:
        raise UsageError(f"{path}: this is not JSON ({error})") from error


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one a line."""
    found = []
    for number, line in enumerate(text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: this is not JSON ({error})") from error
        if not isinstance(value, dict):
            raise UsageError(f"{path}:{number}: this is not an object")
        found.append(value)
    return found


def field(told: dict[str, Any], name: str, path: Path) -> Any:
    if name not in told:
        raise UsageError(f"{path}: {str(told.get('id', told))[:60]!r} has no field {name!r}")
    return told[name]


def sample(items: Sequence[T], count: int, seed: int | None) -> list[T]:
    """So many of them, in their order; the same for the same seed."""
    if len(items) <= count:
        return list(items)
    chosen = sorted(Random(0 if seed is None else seed).sample(range(len(items)), count))
    return [items[index] for index in chosen]
