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
import uuid
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from sandbox_guest.host import HostCallError, call, call_with_buffers

from . import values
from .telling import is_large, shell, tell_of

MAX_PLAIN = 1024 * 1024
"""Characters, as JSON, of the plain form of an answer that goes along with its typed form."""
MAX_DEPTH = 64
MAX_ROWS = 100_000
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
            return {k: plain(v, depth + 1) for k, v in _named(value.items())}
        case list() | tuple():
            return [plain(item, depth + 1) for item in value]
        case set() | frozenset():
            return [plain(item, depth + 1) for item in sorted(value, key=repr)]
    return plain(value.load(), depth) if is_large(value) else _from_library(value, depth)


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


def _named(items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """Items with their keys as text. Raises ValueError where two keys are one text, and one value would be lost."""
    seen: dict[str, Any] = {}
    for key, value in items:
        name = _key(key)
        if name in seen:
            raise ValueError(
                f"the keys {seen[name]!r} and {key!r} of the answer are the same as text: rename one"
            )
        seen[name] = key
        yield name, value


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
        return _from_library(value.to_pandas(), depth)
    if hasattr(value, "to_dicts"):  # a polars frame
        return _rows(value.to_dicts())
    if kind == "DataFrame":
        named = value.index.name is not None or type(value.index).__name__ != "RangeIndex"
        return _records(value.reset_index() if named else value)
    if kind == "Series" and hasattr(value, "index"):
        if type(value.index).__name__ == "RangeIndex" or len(value) == 1:
            return _rows(value.tolist())
        if not value.index.is_unique:
            return _records(value.reset_index())
        return {k: _missing(v, depth) for k, v in _named(value.items())}
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, pandas' Index
        made = _without_nanoseconds(value).tolist()
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


def _records(frame: Any) -> list[Any]:
    """The rows of a pandas frame. Raises ValueError where two columns have one name, and one would be lost."""
    twice = frame.columns[frame.columns.duplicated()].tolist()
    if twice:
        raise ValueError(f"the column {twice[0]!r} is there twice: rename one before answering")
    return _rows(frame.to_dict("records"))


def _without_nanoseconds(value: Any) -> Any:
    """NumPy's dates and durations in microseconds: of nanoseconds `tolist` makes integers."""
    if type(value).__module__ != "numpy" or value.dtype.kind not in "mM":
        return value
    return value.astype(f"{value.dtype.kind}8[us]")


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
        return {k: _missing(v, depth + 1) for k, v in _named(item.items())}
    if isinstance(item, list):
        return [_missing(inner, depth + 1) for inner in item]
    return plain(item, depth + 1)


def install(*, typed: bool = False) -> None:
    """Makes `final_answer` a name of every cell, and tells the host which variables there are when a cell fails. `typed`:
    answers go to the host with their types."""
    found = shell()
    function = _typed_final_answer if typed else final_answer
    function.__name__ = function.__qualname__ = "final_answer"
    found.user_ns["final_answer"] = function
    found.user_ns_hidden["final_answer"] = function
    found.ast_transformers.append(_Kept())
    _install_given(found)
    found.events.register("post_run_cell", tell_of)
    _quieten()
    found.execution_count = 1  # what is set up here is no cell of the author's


class _Kept:
    """Leaves definitions of `final_answer` out of the cells: models write one to have it called, and would answer nobody."""

    def visit(self, tree: ast.Module) -> ast.Module:
        own = [node for node in tree.body if isinstance(node, _DEFINITIONS) and node.name == "final_answer"]
        if own:
            tree.body = [node for node in tree.body if node not in own]
            print("final_answer is there already: the definition of it was left out", file=sys.stderr)
        return tree


def _install_given(found: Any) -> None:
    from . import given  # which needs the names that are told from here

    given.install(found)


def _quieten() -> None:
    """What a library says to its own developers leads the reader of an output astray."""
    for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        warnings.simplefilter("ignore", kind)
