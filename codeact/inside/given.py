"""Values that come from the host as variables, and variables that go there."""

from __future__ import annotations

import io
import mmap
import reprlib
from pathlib import Path
from typing import Any

from sandbox_guest.host import HostCallError, call_with_buffers

from . import frames, packed, tables, values
from .records import made as record
from .structured import sketch
from .telling import names

FOLDER = Path("/workspace/data")
FUNCTION = "take"
"""The host's function that takes a variable."""
DESCRIBED = 100_000
"""Rows of a table that are looked at to describe it."""
FIRST = 3
PNG = "image/png"


def given(name: str) -> Any:
    """The value that the host gave under a name. Its bytes are those of the file until they are written to.

    Raises NoPackage where this image lacks what it is read with.
    """
    with (FOLDER / f".{name}.value").open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    made, buffers = packed.read(view)
    try:
        return values.decode(made, buffers, record=record, path=lambda path: Path(values.WORKSPACE / path))
    except values.BadValue as error:
        if isinstance(error.__cause__, tables.NoPackage):
            raise NoPackage(f"{name.partition('-')[0]} {' '.join(error.__cause__.packages)}") from None
        raise


class NoPackage(Exception):
    """The name of the variable, then the packages."""


def describe(name: str, value: Any) -> dict[str, Any]:
    """What a variable is and holds, in the form of a file's entry in the manifest."""
    entry: dict[str, Any] = {"path": name, "kind": _kind(value), "notes": []}
    try:
        _contents(entry, value)
    except Exception as error:  # noqa: BLE001 - a strange value is told by its type alone
        entry["notes"] = [f"cannot be described: {type(error).__name__}"]
    return entry


def _kind(value: Any) -> str:
    library = type(value).__module__.partition(".")[0]
    name = type(value).__name__
    return f"{library} {name}" if library in ("pandas", "polars", "numpy", "pyarrow") else name


def _contents(entry: dict[str, Any], value: Any) -> None:
    table = _table(value)
    if table is not None:
        rows, head = table
        entry |= {"rows": rows, "columns": frames.columns(head), "first_rows": frames.first_rows(head, FIRST)}
        if rows > len(head):
            entry["notes"].append(f"ranges and counts are those of the first {len(head):,} rows")
        index = getattr(value, "index", None)
        if index is not None and hasattr(index, "names") and type(index).__name__ != "RangeIndex":
            entry["notes"].append(f"index: {type(index).__name__} {index.names}")
    elif isinstance(value, str):
        entry["lines"] = value.count("\n") + 1
        entry["first_lines"] = [line[:120] for line in value[:2000].splitlines()[:FIRST]]
    elif isinstance(value, (bytes, bytearray)):
        entry["size"] = len(value)
        entry["example"] = repr(bytes(value[:24]))
    elif hasattr(value, "dtype") and hasattr(value, "shape"):
        entry["notes"].append(f"dtype {value.dtype}, shape {tuple(value.shape)}")
        entry["example"] = reprlib.repr(value.ravel()[:8].tolist())
    elif isinstance(value, (dict, list)):
        entry["structure"] = sketch(value)
        entry["example"] = reprlib.repr(value)
    else:
        entry["example"] = reprlib.repr(value)


def _table(value: Any) -> tuple[int, Any] | None:
    """How many rows a table has, and the first of them as a DataFrame."""
    library, name = type(value).__module__.partition(".")[0], type(value).__name__
    match library, name:
        case "pandas", "DataFrame":
            return len(value), value.head(DESCRIBED)
        case "pandas", "Series":
            named = value.name if isinstance(value.name, str) else "value"
            return len(value), value.head(DESCRIBED).to_frame(named)
        case "polars", "DataFrame":
            return value.height, value.head(DESCRIBED).to_pandas()
        case "polars", "Series":
            return len(value), value.head(DESCRIBED).to_frame().to_pandas()
        case "pyarrow", "Table":
            return value.num_rows, value.slice(0, DESCRIBED).to_pandas()
    return None


# -- to the host -----------------------------------------------------------------------------------------------------


def give(name: str, space: dict[str, Any]) -> None:
    """Hands a variable to the host: as it is, or as a picture where it is a figure; else why not, in words."""
    if name not in space:
        there = ", ".join(list(names())[-20:])
        _say(f"{name}: there is no such variable; there {'are ' + there if there else 'is none yet'}")
        return
    try:
        made, buffers = values.encode(space[name], name)
        call_with_buffers(FUNCTION, {"value": made}, buffers)
    except values.CannotCross as error:
        picture = _drawn(space[name])
        if picture is None:
            _say(str(error))
        else:
            call_with_buffers(FUNCTION, {"picture": PNG}, [picture])
    except HostCallError as error:
        _say(f"{name}: {error}")


def _say(problem: str) -> None:
    call_with_buffers(FUNCTION, {"problem": problem})


def _drawn(value: Any) -> bytes | None:
    """A figure of matplotlib, or whatever can draw itself as PNG."""
    figure = getattr(value, "figure", value)
    if callable(getattr(figure, "savefig", None)):
        picture = io.BytesIO()
        figure.savefig(picture, format="png", bbox_inches="tight")
        return picture.getvalue()
    draw = getattr(value, "_repr_png_", None)
    made = draw() if callable(draw) else None
    return made if isinstance(made, bytes) else None


def install(shell: Any) -> None:
    """Makes `_given` a name of every cell."""
    shell.user_ns["_given"] = given
    shell.user_ns_hidden["_given"] = given
