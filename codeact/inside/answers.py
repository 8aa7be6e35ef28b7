"""`final_answer`, as code in the sandbox calls it: the value is made plain here and checked on the host."""

from __future__ import annotations

import ast
import base64
import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import sys
import types
import uuid
import warnings
from collections.abc import Mapping
from typing import Any

from sandbox_guest.host import HostCallError, call, call_with_buffers

from . import values

MAX_PLAIN = 1024 * 1024
"""Characters, as JSON, of the plain form of an answer that goes along with its typed form."""
MAX_DEPTH = 64
MAX_ROWS = 100_000
MAX_COLUMNS = 20
MAX_LOOKED_AT = 200
"""Values that are searched for a key."""
MAX_INNER = 2
"""How many levels of a value the model is told of."""
NOTHING: Mapping[str, str] = {}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KINDS: dict[str, type[Exception]] = {"TypeError": TypeError, "ValueError": ValueError}


def final_answer(value: Any) -> None:
    """Ends the task with `value`: text, a number, a list, a dict, a table. Raises when it is not what was asked for."""
    try:
        call("final_answer", {"value": plain(value), "single": _is_array(value)})
    except HostCallError as error:
        raise _KINDS.get(error.kind, RuntimeError)(str(error)) from None


def _typed_final_answer(value: Any) -> None:
    """As above, where the host wants the value with its types. The plain form goes along where it is not large."""
    try:
        made, buffers = values.encode(value, "the answer")
        payload = {"typed": made, "single": _is_array(value), **_plain_form(value)}
        call_with_buffers("final_answer", payload, buffers)
    except values.CannotCross as error:
        raise TypeError(str(error)) from None
    except HostCallError as error:
        raise _KINDS.get(error.kind, RuntimeError)(str(error)) from None


def _plain_form(value: Any) -> dict[str, Any]:
    try:
        made = plain(value)
        return {"value": made} if len(json.dumps(made)) <= MAX_PLAIN else {}
    except (TypeError, ValueError):
        return {}


def names() -> dict[str, str]:
    """The variables that the cells made, and what they are."""
    space = vars(sys.modules["__main__"])
    hidden = getattr(_shell(), "user_ns_hidden", {})
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


def _shell() -> Any:
    from IPython.core.getipython import get_ipython

    return get_ipython()


def _kind(value: Any, depth: int = 0) -> str:
    """What a value is, and what there is to find in it: columns, keys, and those of its items."""
    kind = type(value).__name__
    if _is_large(value):
        return f"{kind}: {value.about()}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        columns = getattr(value, "columns", None)
        named = f": {_listed(columns)}" if columns is not None else ""
        return f"{kind} {'×'.join(map(str, shape))}{named}"
    if isinstance(value, dict) and value and all(type(key) is str for key in value):
        return f"{kind} with {_keys(value, depth)}"
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict) and depth < MAX_INNER:
        return f"{kind} of {len(value)}, the first a {_kind(value[0], depth)}"
    return f"{kind} of {len(value)}" if isinstance(value, (str, list, dict, set, tuple)) else kind


def _keys(value: dict[str, Any], depth: int) -> str:
    """The keys of a dict, with what stands behind those that hold more."""
    inner = {
        key: f" ({_kind(item, depth + 1)})"
        for key, item in list(value.items())[:MAX_COLUMNS]
        if isinstance(item, (list, dict)) and item and depth < MAX_INNER
    }
    return _listed(value, inner)


def _listed(names: Any, inner: Mapping[str, str] = NOTHING) -> str:
    """The first of the names, each with what `inner` says of it."""
    shown = [f"{name!r}{inner.get(name, '')}" for name in list(names)[:MAX_COLUMNS]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _is_array(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("numpy", "pandas", "polars", "pyarrow") and hasattr(
        value, "__len__"
    )


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON can carry it. Raises TypeError or ValueError that says what to pass instead."""
    if depth > MAX_DEPTH:
        raise ValueError(f"the answer is nested more than {MAX_DEPTH} deep")
    match value:
        case None | bool() | str():
            return value
        case enum.Enum():
            return plain(value.value, depth + 1)
        case int():
            return int(value)
        case float():
            return _number(float(value))
        case decimal.Decimal() | fractions.Fraction():
            return _number(float(value)) if value != int(value) else int(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return _date(value)
        case datetime.timedelta() | pathlib.PurePath() | uuid.UUID():
            return str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case dict():
            return {_key(k): plain(v, depth + 1) for k, v in value.items()}
        case list() | tuple():
            return [plain(item, depth + 1) for item in value]
        case set() | frozenset():
            return [plain(item, depth + 1) for item in sorted(value, key=repr)]
    return plain(value.load(), depth) if _is_large(value) else _from_library(value, depth)


def _is_large(value: Any) -> bool:
    """Whether it is a LargeResult; without tools there is none, and no need to import what they need."""
    found = sys.modules.get(f"{__package__}.large")
    return found is not None and isinstance(value, found.LargeResult)


def _date(value: datetime.datetime | datetime.date | datetime.time) -> str | None:
    if value != value:
        return None
    if isinstance(value, datetime.datetime) and value.time() == datetime.time() and value.tzinfo is None:
        return value.date().isoformat()
    return value.isoformat()


def _number(value: float) -> float:
    if math.isnan(value) or math.isinf(value):
        raise ValueError(f"the answer is {value}: look at why before answering")
    return value


def _key(key: Any) -> str:
    made = key if isinstance(key, str) else plain(key)
    return made if isinstance(made, str) else str(made)


def _from_library(value: Any, depth: int) -> Any:
    """Values of NumPy, pandas, polars, Arrow and the like, by what they can do."""
    kind = type(value).__name__
    if hasattr(value, "model_dump"):  # pydantic
        return plain(value.model_dump(), depth + 1)
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name), depth + 1) for name in value.__dataclass_fields__}
    if hasattr(value, "to_pandas") and not hasattr(value, "to_dicts"):  # Arrow
        value = value.to_pandas()
    if hasattr(value, "to_dicts"):  # a polars frame
        return _rows(value.to_dicts())
    if kind == "DataFrame":
        named = value.index.name is not None or type(value.index).__name__ != "RangeIndex"
        return _rows((value.reset_index() if named else value).to_dict("records"))
    if kind == "Series" and hasattr(value, "index"):
        if type(value.index).__name__ == "RangeIndex" or len(value) == 1:
            return _rows(value.tolist())
        return {_key(k): _missing(v, depth) for k, v in value.items()}
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, pandas' Index
        made = value.tolist()
        return made if made is value else _rows(made) if isinstance(made, list) else plain(made, depth + 1)
    if hasattr(value, "to_list"):
        return _rows(value.to_list())
    if kind in ("NAType", "NaTType"):
        return None
    if callable(value):
        raise TypeError(
            f"final_answer got the function {getattr(value, '__name__', kind)}: call it and pass its result"
        )
    if hasattr(value, "__iter__"):
        return [plain(item, depth + 1) for item in value]
    raise TypeError(f"final_answer got a {kind}: pass text, a number, a list, a dict or a table")


def _rows(items: list[Any]) -> list[Any]:
    if len(items) > MAX_ROWS:
        raise ValueError(
            f"the answer has {len(items)} rows: write it to a file in /workspace/out and answer with its name"
        )
    return [_missing(item, 1) for item in items]


def _missing(item: Any, depth: int) -> Any:
    """A cell of a table: what is missing there is null, not an error."""
    if isinstance(item, float) and not math.isfinite(item):
        return None
    if isinstance(item, dict):
        return {_key(k): _missing(v, depth + 1) for k, v in item.items()}
    if isinstance(item, list):
        return [_missing(inner, depth + 1) for inner in item]
    return plain(item, depth + 1)


def install(*, typed: bool = False) -> None:
    """Makes `final_answer` a name of every cell, and tells the host which variables there are when a cell fails. `typed`:
    answers go to the host with their types."""
    shell = _shell()
    function = _typed_final_answer if typed else final_answer
    function.__name__ = function.__qualname__ = "final_answer"
    shell.user_ns["final_answer"] = function
    shell.user_ns_hidden["final_answer"] = function
    shell.ast_transformers.append(_Kept())
    _install_given(shell)
    shell.events.register("post_run_cell", _tell_names)
    _quieten()
    shell.execution_count = 1  # what is set up here is no cell of the author's


class _Kept:
    """Leaves definitions of `final_answer` out of the cells: models write one to have it called, and would answer nobody."""

    def visit(self, tree: ast.Module) -> ast.Module:
        own = [node for node in tree.body if isinstance(node, _DEFINITIONS) and node.name == "final_answer"]
        if own:
            tree.body = [node for node in tree.body if node not in own]
            print("final_answer is there already: the definition of it was left out", file=sys.stderr)
        return tree


def _install_given(shell: Any) -> None:
    from . import given  # which needs the names that are told from here

    given.install(shell)


def _quieten() -> None:
    """What a library says to its own developers leads the reader of an output astray."""
    for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        warnings.simplefilter("ignore", kind)


def _tell_names(result: Any) -> None:
    if result.error_in_exec is not None and result.info.store_history is not False:
        tell(result.error_in_exec)
    if (calling := _calling()) is not None:
        calling.last = None


def tell(error: BaseException | None = None) -> None:
    """Tells the host which variables there are; what the last call of this cell gave, in case no variable holds it; and where
    the key is that was looked for in vain."""
    try:
        call("names", {"variables": names(), "call": _last_call(), "place": _place_of(error)})
    except (HostCallError, OSError):
        pass


def _last_call() -> list[str] | None:
    """A tool, and what it gave."""
    calling = _calling()
    if calling is None or calling.last is None:
        return None
    path, value = calling.last
    if any(value is each for each in vars(sys.modules["__main__"]).values()):
        return None  # it is told of with the variables
    try:
        return [path, _kind(value)]
    except Exception:  # noqa: BLE001 - it was changed while it was looked at
        return None


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
            (f"{path}[{at!r}]", item) for at, item in list(inside)[:MAX_COLUMNS] if type(item) in (dict, list)
        ]
    return None


def _calling() -> Any:
    """The module that calls tools; None where there are none."""
    return sys.modules.get(f"{__package__}.calling")
