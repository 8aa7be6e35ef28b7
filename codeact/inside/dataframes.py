"""DataFrames as Arrow streams, and beside them what Arrow would change: cells of Python's own kinds, labels that are no text.

Arrow makes an array of a set, and one kind of dict of all dicts of a column. Such cells go one by one, as values do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

_SCALARS = frozenset((str, bytes, bool, int, float, Decimal, date, time, UUID))
_PLAIN = frozenset((str, bool, int, float))
_WHOLE = range(-(2**63), 2**63)
"""Integers that Arrow has a type for."""


class Unfit(Exception):
    """A frame that cannot be sent; the message goes on after its name."""


@dataclass(frozen=True, slots=True)
class Apart:
    """`table` has nulls in the columns whose `cells` are beside it, by position: the label, and the cells. `lists` are the
    positions of columns of lists. `beside` has `columns`, the labels and their name, and `index`, the names of the index, where
    the table does not hold them as they are."""

    table: Any
    cells: Mapping[int, tuple[Any, list[Any]]] = field(default_factory=dict)
    lists: tuple[int, ...] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)


def apart(frame: Any) -> Apart:
    """Takes a DataFrame apart. Raises Unfit, or what pyarrow raises for a type that it does not have."""
    import pandas as pd

    cells: dict[int, tuple[Any, list[Any]]] = {}
    lists = []
    rest = frame.copy(deep=False)
    for at, dtype in enumerate(frame.dtypes):
        if pd.api.types.is_object_dtype(dtype):
            match _way(frame.iloc[:, at].dropna()):
                case "list":
                    lists.append(at)
                case "cells":
                    cells[at] = (frame.columns[at], frame.iloc[:, at].tolist())
                    rest.isetitem(at, None)
    beside: dict[str, Any] = {}
    if not _labels_stay(frame.columns):
        if isinstance(frame.columns, pd.MultiIndex):
            raise Unfit("has labels of columns that change on the way")
        beside["columns"] = [frame.columns.tolist(), frame.columns.name]
        rest.columns = pd.Index([f"c{at}" for at in range(len(rest.columns))])
    if not all(name is None or type(name) is str for name in frame.index.names):
        beside["index"] = list(frame.index.names)
        rest.index = rest.index.set_names([None] * frame.index.nlevels)
    table, _ = _read_back(rest)
    return Apart(table, cells, tuple(lists), beside)


def together(
    table: Any, lists: Iterable[int], beside: Mapping[str, Any], cells: Mapping[int, list[Any]]
) -> Any:
    """The DataFrame that was taken apart. Raises what pandas and pyarrow raise for what does not fit."""
    import pandas as pd

    frame = table.to_pandas(integer_object_nulls=True)
    for at in lists:
        frame.isetitem(at, _objects(table.column(at).to_pylist()))
    for at, column in cells.items():
        frame.isetitem(at, _objects(column))
    if "columns" in beside:
        labels, name = beside["columns"]
        frame.columns = pd.Index(labels, tupleize_cols=False, name=name)
    if "index" in beside:
        frame.index = frame.index.set_names(beside["index"])
    return frame


def _objects(column: list[Any]) -> Any:
    import pandas as pd

    return pd.Series(column, dtype=object).to_numpy()


def _read_back(frame: Any) -> tuple[Any, Any]:
    """A frame as a table, and what is read of that, without its rows."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame)
    try:
        return table, table.slice(0, 0).to_pandas()
    except Exception as error:  # pandas does not know the name that it gave a type itself
        raise Unfit(f"has a column or a label of a type that cannot be read back ({error})") from error


def _labels_stay(labels: Any) -> bool:
    import pandas as pd

    if labels.nlevels == 1 and labels.inferred_type.startswith(
        "mixed"
    ):  # pyarrow warns, and makes text of them
        return False
    try:
        _, read = _read_back(pd.DataFrame(columns=labels))
    except (Unfit, ValueError, TypeError):  # of which pyarrow's errors are some
        return False
    names = list(read.columns.names) == list(labels.names)
    return (
        names
        and bool(read.columns.equals(labels))
        and list(map(type, read.columns)) == list(map(type, labels))
    )


def _way(present: Iterable[Any]) -> str:
    """How the cells of a column of Python objects go: as Arrow has them, as lists of what Arrow has, or one by one."""
    kinds = set(map(type, present))
    if len(kinds) > 1:
        return "cells"
    kind = next(iter(kinds), None)
    if kind is list:
        inner = set(map(type, chain.from_iterable(present)))
        flat = (
            len(inner) <= 1 and inner <= _PLAIN and (int not in inner or _whole(chain.from_iterable(present)))
        )
        return "list" if flat else "cells"
    if kind is None or kind.__name__ == "ndarray":
        return "arrow" if len({(each.dtype.str, each.ndim) for each in present}) <= 1 else "cells"
    if kind not in _SCALARS and not issubclass(kind, (datetime, timedelta)) and kind.__module__ != "numpy":
        return "cells"
    changed = (
        (kind is int and not _whole(present))
        or (kind is Decimal and not all(map(Decimal.is_finite, present)))
        or (kind is time and any(each.tzinfo for each in present))
        or (issubclass(kind, datetime) and len({each.tzinfo for each in present}) > 1)
    )
    return "cells" if changed else "arrow"


def _whole(integers: Iterable[int]) -> bool:
    return all(each in _WHOLE for each in integers)
