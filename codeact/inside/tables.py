"""Tables and arrays as buffers: those of NumPy as they lie in memory, those of pandas, polars and Arrow as Arrow streams.

The libraries are looked for only when a value needs them. What comes is taken to be hostile: types that could run code
or grow beyond what was sent are refused before they are touched.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import arrow, dataframes

Buffer = bytes | bytearray | memoryview


NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Encoded:
    """`data` with what is needed to read it. `tag` is one of TAGS. `beside` are values by name, and `cells` the cells of
    columns by their position and with their label, which whoever encodes this encodes as well."""

    tag: str
    data: Any
    fields: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)
    cells: Mapping[int, tuple[Any, list[Any]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Came:
    """What came: the `fields`, `beside` and `cells` of an Encoded."""

    fields: Mapping[str, Any]
    beside: Mapping[str, Any] = field(default_factory=dict)
    cells: Mapping[int, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that is as well said by one that needs no library."""

    value: Any


class CannotEncode(Exception):
    """`reason` goes on after the value's name, `instead` after `pass`."""

    def __init__(self, reason: str, instead: str) -> None:
        super().__init__(reason)
        self.reason, self.instead = reason, instead


class BadTable(ValueError):
    """What came is no table or array, or cannot be read here."""


class NoPackage(BadTable):
    """It needs `packages`, which are not on this side."""

    def __init__(self, packages: Sequence[str]) -> None:
        names = " and ".join(packages)
        super().__init__(
            f"a table came that needs {names}, which {'are' if packages[1:] else 'is'} not {_where()}"
        )
        self.packages = packages


def encode(value: Any) -> Encoded | Plain | None:
    """A value of pandas, polars, Arrow or NumPy; None for any other. Raises CannotEncode."""
    library = type(value).__module__.partition(".")[0]
    encoder = _ENCODERS.get(library)
    return None if encoder is None else encoder(value)


def decode(tag: str, came: Came, data: memoryview) -> Any:
    """What was encoded under `tag`. Raises BadTable."""
    missing = [name for name in NEEDED[tag] if not _has(name)]
    if missing:
        raise NoPackage(missing)
    return TAGS[tag](came, data)


# -- NumPy ---------------------------------------------------------------------------------------------------------

_DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248]|c(?:8|16)|[SU]\d{1,9}|[mM]8(?:\[\d{0,6}[a-zA-Z]{1,2}\])?)")
_MAX_DIMENSIONS = 32
_LAST_CHARACTER = 0x10FFFF


def _encode_numpy(value: Any) -> Encoded | Plain | None:
    import numpy as np

    if isinstance(value, np.generic):
        return _scalar(value)
    if not isinstance(value, np.ndarray):
        return None
    if isinstance(value, np.ma.MaskedArray):
        raise CannotEncode("is a masked array", "array.filled(...)")
    if value.dtype.hasobject:
        raise CannotEncode("is an array of Python objects", "array.tolist()")
    if not _DTYPE.fullmatch(value.dtype.str) or value.dtype.names:
        raise CannotEncode(f"is an array of dtype {value.dtype}", "a DataFrame, or array.tolist()")
    if value.ndim == 0:
        return Plain(value[()])
    array = np.asarray(value)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    flat = np.ascontiguousarray(array.T if order == "F" else array).reshape(-1)
    data: Any = flat.view(np.uint8)
    data = memoryview(data) if flat.nbytes else b""
    return Encoded("array", data, {"dtype": array.dtype.str, "shape": list(array.shape), "order": order})


def _scalar(value: Any) -> Plain:
    if value.dtype.kind in "mM":
        if value != value:
            return Plain(None)
        made = value.astype(f"{value.dtype.kind}8[us]")
        if made != value or isinstance(made.item(), int):
            raise CannotEncode("has nanoseconds, or is too far away", "an array of it")
        return Plain(made.item())
    if value.dtype.kind == "f" and value.dtype.itemsize > 8:
        return Plain(float(value))
    made = value.item()
    if type(made) is type(value):
        raise CannotEncode(f"is a {type(value).__name__}", "a value of plain Python")
    return Plain(made)


def _decode_array(came: Came, data: memoryview) -> Any:
    import numpy as np

    fields = came.fields
    dtype, shape, order = fields["dtype"], fields["shape"], fields["order"]
    sizes = isinstance(shape, list) and len(shape) <= _MAX_DIMENSIONS
    if not sizes or any(type(size) is not int or size < 0 for size in shape) or order not in ("C", "F"):
        raise BadTable("an array has no shape")
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise BadTable("an array has no dtype that may cross")
    made = np.dtype(dtype)
    if math.prod(shape) * made.itemsize != data.nbytes:
        raise BadTable("an array has another size than it says")
    if not data.nbytes:
        return np.empty(shape, made)
    if made.kind == "U" and np.frombuffer(data, made.str[0] + "u4").max() > _LAST_CHARACTER:
        raise BadTable("an array of text holds what is no character")
    return np.frombuffer(data, made).reshape(shape, order=order)


# -- pandas --------------------------------------------------------------------------------------------------------


def _encode_pandas(value: Any) -> Encoded | Plain | None:
    import pandas as pd

    if value is pd.NA:
        return Plain(None)
    if isinstance(value, pd.DataFrame):
        return _from_frame("pandas", value)
    if isinstance(value, (pd.Series, pd.Categorical)):
        series = pd.Series(value)
        frame = series.to_frame("value")
        if isinstance(series.name, (str, int, float, type(None))):
            return _from_frame("series", frame, fields={"name": series.name})
        return _from_frame("series", frame, beside={"name": series.name})
    if isinstance(value, pd.Index):
        return Plain(value.tolist())
    if isinstance(value, pd.api.extensions.ExtensionArray):
        return Plain(pd.Series(value))
    return None


def _from_frame(
    tag: str, frame: Any, *, fields: Mapping[str, Any] = NONE, beside: Mapping[str, Any] = NONE
) -> Encoded:
    pa = _need_to_send("pyarrow", "df.to_dict('records')")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise CannotEncode(
            f"has the column {twice!r:.60} more than once", "a table whose columns have names of their own"
        )
    try:
        apart = dataframes.apart(frame)
    except dataframes.Unfit as error:
        raise CannotEncode(
            str(error)[:300], "a table with it as text, as with df.astype(str) or df.rename(columns=str),"
        ) from error
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        said = " ".join(str(error).split())[:200]
        raise CannotEncode(
            f"has a column that Arrow has no type for ({said})",
            "one with another type in it, as with df.astype(object), and df.reset_index() where it is the index,",
        ) from error
    if apart.lists:
        fields = {**fields, "lists": list(apart.lists)}
    return Encoded(tag, _stream(apart.table), fields, {**beside, **apart.beside}, apart.cells)


def _decode_frame(came: Came, data: memoryview) -> Any:
    table = _read(data)
    arrow.check_objects(table, BadTable)
    try:
        return dataframes.together(table, came.fields.get("lists", ()), came.beside, came.cells)
    except Exception as error:
        raise BadTable(f"a table cannot be made a DataFrame: {error}") from error


def _decode_series(came: Came, data: memoryview) -> Any:
    frame = _decode_frame(came, data)
    if len(frame.columns) != 1:
        raise BadTable("what should be a Series has not one column")
    series = frame.iloc[:, 0]
    series.name = came.beside.get("name", came.fields.get("name"))
    return series


# -- Arrow and polars ------------------------------------------------------------------------------------------------


def _encode_arrow(value: Any) -> Encoded | Plain | None:
    import pyarrow as pa

    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    if isinstance(value, pa.Table):
        return Encoded("arrow", _stream(value))
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return Encoded("arrow_array", _stream(pa.table({"value": value})))
    return Plain(value.as_py()) if isinstance(value, pa.Scalar) else None


def _encode_polars(value: Any) -> Encoded | Plain | None:
    import polars as pl

    if isinstance(value, pl.LazyFrame):
        raise CannotEncode("is a query that was not run", "frame.collect()")
    if not isinstance(value, (pl.DataFrame, pl.Series)):
        return None
    _need_to_send("pyarrow", "df.to_dicts()")
    frame = value.to_frame("value") if isinstance(value, pl.Series) else value
    for name, dtype in frame.schema.items():
        if _holds_objects(dtype):  # which polars sends as their addresses
            raise CannotEncode(f"has the column {name!r:.60} of Python objects", "one without it")
    try:
        table = frame.to_arrow()
    except Exception as error:
        raise CannotEncode(f"has a column that Arrow has no type for ({error})", "one without it") from error
    if isinstance(value, pl.Series):
        return Encoded("polars_series", _stream(table), {"name": value.name})
    return Encoded("polars", _stream(table))


def _holds_objects(dtype: Any) -> bool:
    import polars as pl

    inner = getattr(dtype, "inner", None)
    fields = [each.dtype for each in getattr(dtype, "fields", ())]
    return dtype == pl.Object or any(map(_holds_objects, [*fields, *([inner] if inner else [])]))


def _stream(table: Any) -> Any:
    try:
        return arrow.write(table)
    except arrow.BadType as error:
        raise CannotEncode(str(error), "a table without it, or cast it") from error


def _read(data: memoryview) -> Any:
    try:
        return arrow.read(data)
    except (arrow.BadType, ValueError, TypeError, OSError, MemoryError, LookupError) as error:
        raise BadTable(f"a table cannot be read: {error}") from error


def _only_column(table: Any) -> Any:
    if table.num_columns != 1:
        raise BadTable("what should be one array has not one column")
    return table.column(0)


def _decode_polars(came: Came, data: memoryview) -> Any:
    import polars as pl

    try:
        return pl.from_arrow(_read(data))
    except BadTable:
        raise
    except Exception as error:
        raise BadTable(f"a table cannot be made a polars frame: {error}") from error


def _decode_polars_series(came: Came, data: memoryview) -> Any:
    frame = _decode_polars(came, data)
    if len(frame.columns) != 1:
        raise BadTable("what should be a Series has not one column")
    name = came.fields.get("name")
    return frame.to_series().alias(name if isinstance(name, str) else "")


def _has(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def _need_to_send(name: str, instead: str) -> Any:
    if not _has(name):
        raise CannotEncode(f"needs {name} to cross, which is not {_where()}", instead)
    return __import__(name)


def _where() -> str:
    """Which side this is, and what a person does there."""
    return (
        "in this image" if "codeact_inside" in sys.modules else "on the host (pip install 'codeact[tables]')"
    )


_ENCODERS: Mapping[str, Callable[[Any], Encoded | Plain | None]] = {
    "numpy": _encode_numpy,
    "pandas": _encode_pandas,
    "polars": _encode_polars,
    "pyarrow": _encode_arrow,
}
TAGS: Mapping[str, Callable[[Came, memoryview], Any]] = {
    "array": _decode_array,
    "pandas": _decode_frame,
    "series": _decode_series,
    "polars": _decode_polars,
    "polars_series": _decode_polars_series,
    "arrow": lambda came, data: _read(data),
    "arrow_array": lambda came, data: _only_column(_read(data)),
}
_FRAME, _POLARS = ("pandas", "pyarrow"), ("polars", "pyarrow")
NEEDED: Mapping[str, Sequence[str]] = {
    "array": ("numpy",),
    "pandas": _FRAME,
    "series": _FRAME,
    "polars": _POLARS,
    "polars_series": _POLARS,
    "arrow": ("pyarrow",),
    "arrow_array": ("pyarrow",),
}
"""The packages that what has a tag is read with."""
