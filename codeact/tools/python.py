"""Values as Python source, for people: each is written as what it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from codeact.tools.shown import short

MAX_LEVELS = 64


def source(value: Any, most: int) -> str:
    """A value with the items of what it holds. Of texts and bytes longer than `most`, the beginning and the end; tables and
    arrays stand as their shape, and what cannot say itself as its type."""
    return _source(value, most, 0)


def _source(value: Any, most: int, level: int) -> str:
    def items(values: Iterable[Any]) -> str:
        return ", ".join(_source(each, most, level + 1) for each in values)

    kind = type(value)
    if level > MAX_LEVELS:
        return short(value)
    if kind is dict:
        pairs = (
            (_source(key, most, level + 1), _source(each, most, level + 1)) for key, each in value.items()
        )
        return "{" + ", ".join(f"{key}: {each}" for key, each in pairs) + "}"
    if kind is list:
        return f"[{items(value)}]"
    if kind is tuple:
        return f"({items(value)}{',' if len(value) == 1 else ''})"
    if kind is set and value:
        return "{" + items(value) + "}"
    if kind is frozenset and value:
        return f"frozenset({{{items(value)}}})"
    if isinstance(value, (str, bytes, bytearray)) and len(value) > most:
        left_out = f"{len(value) - most:,} {'characters' if isinstance(value, str) else 'bytes'}"
        return f"{value[: most // 2]!r} ...({left_out} are not shown)... {value[-most // 2 :]!r}"
    if isinstance(value, PurePath):
        return f"Path({str(getattr(value, 'inside', value))!r})"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"<{kind.__name__} {'×'.join(map(str, shape))}>"
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a number too large to be written, or code of whoever made the value
        return short(value)
