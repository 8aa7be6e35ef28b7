"""The attempts of a run as a table, with a column for each field of `Attempt`, of the same type whatever the run holds.

What is no number, text or truth value is there as JSON.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, get_args

from benchmarks.attempts import Attempt
from codeact import schema


def _kind(hint: Any) -> type:
    """What a cell is, where it is not empty."""
    first = get_args(hint)[0] if isinstance(hint, types.UnionType) else hint
    return first if first in (bool, int, float) else str


COLUMNS: Mapping[str, type] = {name: _kind(hint) for name, hint in schema.fields(Attempt).items()}


def _cells(made: Attempt) -> dict[str, Any]:
    return {
        name: value
        if name != "answer" and (value is None or isinstance(value, bool | int | float | str))
        else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in dataclasses.asdict(made).items()
    }


def as_csv(attempts: Sequence[Attempt]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(map(_cells, attempts))
    return text.getvalue()


def as_parquet(attempts: Sequence[Attempt]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    form = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist([_cells(made) for made in attempts], schema=form), sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def as_sqlite(attempts: Sequence[Attempt]) -> bytes:
    """As SQLite has no truth values, they are 0 and 1 there."""
    import sqlite3

    kinds = {bool: "integer", int: "integer", float: "real", str: "text"}
    columns = ", ".join(f"{name} {kinds[kind]}" for name, kind in COLUMNS.items())
    with closing(sqlite3.connect(":memory:")) as made:
        made.execute(f"create table attempts ({columns})")
        places = ", ".join("?" * len(COLUMNS))
        made.executemany(
            f"insert into attempts values ({places})", [list(_cells(each).values()) for each in attempts]
        )
        made.commit()
        return made.serialize()


FORMS: Mapping[str, Callable[[Sequence[Attempt]], str | bytes]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "sqlite": as_sqlite,
}
