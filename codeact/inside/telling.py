"""What is told of a kernel's state: its variables and their shapes, and after an error what there is in place of what was
taken for given. Keys and types, no values."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from sandbox_guest.host import HostCallError, call

from .misread import misread

MAX_COLUMNS = 20
MAX_LOOKED_AT = 200
"""Values that are searched for a key."""
MAX_INNER = 2
"""How many levels of a value the model is told of."""
NOTHING: Mapping[str, str] = {}


def names() -> dict[str, str]:
    """The variables that the cells made, and what they are."""
    space = vars(sys.modules["__main__"])
    hidden = getattr(shell(), "user_ns_hidden", {})
    found = {}
    for name, value in list(space.items()):
        if name.startswith("_") or name in hidden or isinstance(value, types.ModuleType):
            continue
        if callable(value) and getattr(value, "__module__", "__main__") != "__main__":
            continue
        try:
            found[name] = _kind(value)
        except Exception:  # noqa: BLE001 - the code of whoever made the value
            found[name] = type(value).__name__
    return dict(list(found.items())[-40:])


def shell() -> Any:
    from IPython.core.getipython import get_ipython

    return get_ipython()


def _kind(value: Any, depth: int = 0) -> str:
    """What a value is, and what there is to find in it: columns, keys, and those of its items."""
    kind = type(value).__name__
    if is_large(value):
        return f"{kind}: {value.about()}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        columns = getattr(value, "columns", None)
        named = f": {_listed(columns)}" if columns is not None else ""
        return f"{kind} {'×'.join(map(str, shape))}{named}"
    if isinstance(value, dict) and value and all(type(key) is str for key in islice(value, MAX_COLUMNS)):
        return f"{kind} with {_keys(value, depth)}"
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict) and depth < MAX_INNER:
        return f"{kind} of {len(value)}, the first a {_kind(value[0], depth)}"
    return f"{kind} of {len(value)}" if isinstance(value, (str, list, dict, set, tuple)) else kind


def _keys(value: dict[str, Any], depth: int) -> str:
    """The keys of a dict, with what stands behind those that hold more."""
    inner = {
        key: f" ({_kind(item, depth + 1)})"
        for key, item in islice(value.items(), MAX_COLUMNS)
        if isinstance(item, (list, dict)) and item and depth < MAX_INNER
    }
    return _listed(value, inner)


def _listed(names: Any, inner: Mapping[str, str] = NOTHING) -> str:
    """The first of the names, each with what `inner` says of it."""
    shown = [f"{name!r}{inner.get(name, '')}" for name in islice(names, MAX_COLUMNS)]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def is_large(value: Any) -> bool:
    """Whether it is a LargeResult; without tools there is none, and no need to import what they need."""
    found = sys.modules.get(f"{__package__}.large")
    return found is not None and isinstance(value, found.LargeResult)


def tell_of(result: Any) -> None:
    """After each cell: tells of one that failed."""
    if result.error_in_exec is not None and result.info.store_history is not False:
        tell(result.error_in_exec)
    if (calling := _calling()) is not None:
        calling.last = None


def tell(error: BaseException | None = None) -> None:
    """Tells the host which variables there are; what the last call of this cell gave, in case no variable holds it; where
    the key is that was looked for in vain; and what a value was taken for that it is not."""
    main = vars(sys.modules["__main__"])
    found = {
        "variables": names(),
        "call": _unless_changed(_last_call),
        "place": _unless_changed(_place_of, error),
        "misread": _unless_changed(misread, error, main),
    }
    try:
        call("names", found)
    except (HostCallError, OSError):
        pass


def _unless_changed(look: Callable[..., list[str] | None], *given: object) -> list[str] | None:
    """What a look at values finds, which other threads may change meanwhile, and whose code is anybody's."""
    try:
        return look(*given)
    except Exception:  # noqa: BLE001 - it is a hint: no cell fails for it
        return None


def _last_call() -> list[str] | None:
    """A tool, and what it gave."""
    calling = _calling()
    if calling is None or calling.last is None:
        return None
    path, value = calling.last
    held = any(value is each for each in vars(sys.modules["__main__"]).values())
    return None if held else [path, _kind(value)]  # what is held is told of with the variables


def _place_of(error: BaseException | None) -> list[str] | None:
    """A key that a dict did not have, and an expression for where it is in the variables or in what the last call gave."""
    if type(error) is not KeyError or len(error.args) != 1 or type(error.args[0]) is not str:
        return None
    key, calling = error.args[0], _calling()
    roots = [(name, value) for name, value in vars(sys.modules["__main__"]).items() if name[:1] != "_"]
    if calling is not None and calling.last is not None:
        roots.insert(0, (f"{calling.last[0]}(...)", calling.last[1]))
    waiting = [(name, value) for name, value in roots if type(value) in (dict, list)]
    for _ in range(MAX_LOOKED_AT):
        if not waiting:
            return None
        path, value = waiting.pop(0)
        if isinstance(value, dict) and key in value:
            return [key, f"{path}[{key!r}]"]
        inside = value.items() if isinstance(value, dict) else enumerate(value[:1])
        waiting += [
            (f"{path}[{at!r}]", item)
            for at, item in islice(inside, MAX_COLUMNS)
            if type(item) in (dict, list)
        ]
    return None


def _calling() -> Any:
    """The module that calls tools; None where there are none."""
    return sys.modules.get(f"{__package__}.calling")
