"""The attempts of a run as tables: the same columns of the same types, whatever the run holds."""

from __future__ import annotations

import io
import sqlite3
from typing import Any

import pandas as pd
import pytest

from benchmarks import tables
from benchmarks.attempts import Attempt

HARD = {"a": [1, 'é,"\n'], "b": None}
FULL = Attempt(key="k1", task="t", arm="code", success=True, size=3, cost_usd=0.5, wall_s=1.5, answer=HARD, errors={"schema": 2}, served=("m1", "m2"))  # fmt: skip
OPEN = Attempt(key="k2", task="t", arm="json", success=None, answer=None, error="=1+1")
RUNS = {"nothing": [], "none with a verdict": [OPEN], "both": [FULL, OPEN]}


@pytest.mark.parametrize("attempts", RUNS.values(), ids=RUNS.keys())
def test_parquet_has_the_types_of_the_fields(attempts: list[Attempt]) -> None:
    from pyarrow import parquet

    found = parquet.read_table(io.BytesIO(tables.as_parquet(attempts)))
    kinds = {each.name: str(each.type) for each in found.schema}
    expected = {"success": "bool", "size": "int64", "cost_usd": "double", "answer": "string", "errors": "string", "error": "string", "recovered": "bool", "served": "string", "stop_reason": "string"}  # fmt: skip
    assert {name: kinds[name] for name in expected} == expected
    assert found.num_rows == len(attempts)


@pytest.mark.parametrize("attempts", RUNS.values(), ids=RUNS.keys())
def test_sqlite_has_them_too(attempts: list[Attempt]) -> None:
    with sqlite3.connect(":memory:") as made:
        made.deserialize(tables.as_sqlite(attempts))
        kinds = {name: kind for _, name, kind, *_ in made.execute("pragma table_info(attempts)")}
        assert (kinds["success"], kinds["size"], kinds["cost_usd"], kinds["answer"]) == ("INTEGER", "INTEGER", "REAL", "TEXT")  # fmt: skip
        assert made.execute("select count(*) from attempts").fetchone() == (len(attempts),)
    made.close()


def frames() -> dict[str, pd.DataFrame]:
    made = [FULL, OPEN]
    with sqlite3.connect(":memory:") as base:
        base.deserialize(tables.as_sqlite(made))
        found = {
            "csv": pd.read_csv(io.StringIO(tables.as_csv(made))),
            "parquet": pd.read_parquet(io.BytesIO(tables.as_parquet(made))),
            "sqlite": pd.read_sql("select * from attempts", base),
        }
    base.close()
    return found


@pytest.mark.parametrize("form", tables.FORMS)
def test_pandas_reads_what_was_written(form: str) -> None:
    found = frames()[form]
    first, second = found.iloc[0], found.iloc[1]
    assert (first["size"], first["cost_usd"], first["wall_s"]) == (3, 0.5, 1.5)
    assert bool(first["success"]) is True
    assert first["answer"] == '{"a": [1, "é,\\"\\n"], "b": null}'
    assert (first["errors"], first["served"]) == ('{"schema": 2}', '["m1", "m2"]')
    empty: list[Any] = [second["success"], second["size"], second["cost_usd"]]
    assert all(map(pd.isna, empty))
    assert second["error"] == "=1+1"
