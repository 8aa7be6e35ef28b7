"""Which variables there are: name, type and size, told without running code of theirs."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

MAX_VARIABLES = 40
"""Told at most: the ones that were made last."""
MAX_NAME = 100
LIBRARIES = frozenset(("numpy", "pandas", "polars", "pyarrow"))
"""Where an object's own word on its shape and size is taken."""


def survey(space: Mapping[str, Any], hidden: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`{"name", "kind", "size"}` of what the cells made; `size` in bytes, None where it is not known."""
    made = [(name, value) for name, value in list(space.items()) if _is_theirs(name, value, hidden)]
    return [described(name, value) for name, value in made[-MAX_VARIABLES:]]


def _is_theirs(name: str, value: Any, hidden: Mapping[str, Any]) -> bool:
    kind = type(value)  # not isinstance, which asks the value
    if type(name) is not str or name.startswith("_") or name in hidden or issubclass(kind, types.ModuleType):
        return False
    if kind is types.FunctionType:
        return bool(value.__module__ == "__main__")
    if issubclass(kind, type):
        return bool(type.__getattribute__(value, "__module__") == "__main__")
    return kind is not types.BuiltinFunctionType


def described(name: str, value: Any) -> dict[str, Any]:
    kind, size = type(value).__name__, None
    if type(value) in (str, bytes, bytearray):
        kind, size = f"{kind} of {len(value):,}", sys.getsizeof(value)
    elif type(value) in (list, dict, set, frozenset, tuple):
        kind = f"{kind} of {len(value):,}"
    elif type(value) in (int, float, complex, bool):
        size = sys.getsizeof(value)
    elif type(value).__module__.partition(".")[0] in LIBRARIES:
        try:
            kind, size = f"{kind}{_shape(value)}", _size(value)
        except Exception:  # noqa: BLE001 - it is half made, or not what it seems
            size = None
    return {"name": name[:MAX_NAME], "kind": kind[:MAX_NAME], "size": size}


def _shape(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f" {'×'.join(map(str, shape))}" if isinstance(shape, tuple) and shape else ""


def _size(value: Any) -> int | None:
    if hasattr(value, "memory_usage"):  # pandas: of text, the references
        used = value.memory_usage()
        return int(used.sum() if hasattr(used, "sum") else used)
    if hasattr(value, "estimated_size"):  # polars
        return int(value.estimated_size())
    size = getattr(value, "nbytes", None)
    return None if size is None else int(size)
