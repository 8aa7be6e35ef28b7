"""Tables and arrays there and back as they were, and what a stranger may send in their place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from codeact.inside import arrow, large, values
from codeact.tools.large import stored
from tests.unit.test_values import BERLIN, there_and_back

DTYPES = (
    arrays.boolean_dtypes()
    | arrays.integer_dtypes(endianness="?")
    | arrays.floating_dtypes(endianness="?", sizes=(16, 32, 64))
    | arrays.complex_number_dtypes(sizes=(64, 128))
    | arrays.datetime64_dtypes(endianness="?")
    | arrays.timedelta64_dtypes(endianness="?")
    | arrays.unicode_string_dtypes(max_len=5)
    | arrays.byte_string_dtypes(max_len=5)
)


@given(
    arrays.arrays(DTYPES, arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)), st.booleans()
)
def test_arrays(array: Any, turned: bool) -> None:
    array = array.T[::-1] if turned else array
    found = there_and_back(array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


FRAME = pd.DataFrame(
    {
        "whole": [1, 2, -3],
        "number": [1.5, np.nan, np.inf],
        "text": ["é", None, ""],
        "flag": [True, False, True],
        "kind": pd.Categorical(["b", "a", "b"], categories=["c", "b", "a"], ordered=True),
        "time": pd.date_range("2024-10-27", periods=3, freq="h", tz="Europe/Berlin"),
        "plain_time": pd.to_datetime(["2020-01-01", None, "1900-05-05"]),
        "took": pd.to_timedelta([1, 2, None], unit="s"),
        "month": pd.period_range("2020", periods=3, freq="M"),
        "date": [date(2020, 1, 1), None, date(1, 1, 1)],
        "price": [Decimal("1.10"), Decimal("2.25"), None],
        "data": [b"a", b"", None],
        "maybe": pd.array([1, None, 3], dtype="Int64"),
    },
    index=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["group", None]),
)


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.reset_index(drop=True),
        FRAME.iloc[1:2],
        FRAME.iloc[:0],
        FRAME[[]],
        pd.DataFrame(),
        pd.DataFrame({1: [1], 2: [2]}),
        pd.DataFrame({("a", "b"): [1], ("a", "c"): [2]}),
        pd.DataFrame({"a": [1, 2]}, index=pd.date_range("2020", periods=2, name="day")),
        pd.DataFrame({"a": range(10)}, index=range(5, 25, 2)),
    ],
    ids=range(10),
)
def test_frames(frame: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(there_and_back(frame), frame, check_freq=False)


CELLS: dict[str, list[Any]] = {
    "sets": [{1, 2}, None, set()],
    "tuples": [(1, "a"), ()],
    "lists": [[1, 2], None, []],
    "lists of more kinds": [[1, None, "a"], [[2]]],
    "long integers in lists": [[2**70]],
    "unlike dicts": [{"a": 1}, {"b": [2.5]}, {3: 4}],
    "mixed": [1, "a", 2.5, None, True],
    "whole and missing": [2**60 + 1, None],
    "long integers": [2**70, 1],
    "endless decimals": [Decimal("1.5"), Decimal("Infinity")],
    "times of a zone": [time(1, tzinfo=UTC)],
    "moments of zones": [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=BERLIN)],
    "arrays of sizes": [np.array([[1, 2]]), np.array([1.5])],
}


@pytest.mark.parametrize("kind", CELLS)
def test_cells_of_python_objects_are_what_they_were(kind: str) -> None:
    cells = pd.Series(CELLS[kind], dtype=object)
    for found in (there_and_back(pd.DataFrame({"n": 1, "c": cells}))["c"], there_and_back(cells)):
        assert found.dtype == "object"
        assert repr(found.tolist()) == repr(CELLS[kind])


@pytest.mark.parametrize(
    "columns",
    [[True, False], ["a", 1], [date(2020, 1, 1), date(2020, 1, 2)], [(1, "a"), "b"], [1.5, None]],
    ids=repr,
)
def test_labels_that_are_no_text(columns: list[Any]) -> None:
    labels = pd.Index(columns, tupleize_cols=False, name=date(2020, 1, 1))
    frame = pd.DataFrame([[1, {2}]], columns=labels, index=pd.Index([5], name=("of", 1)))
    pd.testing.assert_frame_equal(there_and_back(frame), frame)
    series = pd.Series([1], name=columns[0])
    assert repr(there_and_back(series).name) == repr(columns[0])


def test_a_frame_with_python_objects_can_be_a_large_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({True: [{1}, (2,)], False: [[1], [2]]})
    (tmp_path / large.FOLDER).mkdir()
    made = stored(frame, "1", lambda file, path: shutil.copy(file, tmp_path / path), str)
    monkeypatch.setattr(values, "WORKSPACE", PurePosixPath(tmp_path))
    result = large.opened(made, values.decode, lambda value: value)
    assert (len(result), result.path.suffix) == (2, ".value")
    pd.testing.assert_frame_equal(result.load(), frame)


HOSTILE_CELLS: list[dict[str, Any]] = [
    {"cells": {"0": 1}},
    {"cells": {"5": 0}},
    {"cells": {"x": 1}},
    {"cells": [1]},
    {"cells": {"0": 7}},
    {"lists": [9]},
    {"lists": 1},
    {"beside": {"columns": [1]}},
    {"beside": {"columns": [[1, 2, 3], None]}},
    {"beside": {"index": [[]]}},
    {"beside": 5},
]


@pytest.mark.parametrize("more", HOSTILE_CELLS, ids=repr)
def test_what_lies_beside_a_table_is_checked(more: dict[str, Any]) -> None:
    table = stream(pa.table({"a": [1, 2]}))
    with pytest.raises(values.BadValue):
        values.decode({"$": "pandas", "buffer": 0, **more}, [table, b"[1, [2", b"[1]"])


def test_series_and_what_else_pandas_has() -> None:
    for name in FRAME.columns:
        pd.testing.assert_series_equal(there_and_back(FRAME[name]), FRAME[name], check_freq=False)
    assert there_and_back(pd.Series([1, 2])).name is None
    assert there_and_back(pd.Index(["a", "b"])) == ["a", "b"]
    assert there_and_back([pd.NaT, pd.NA]) == [None, None]
    assert there_and_back(pd.Timestamp("2020-01-01 03:00", tz="UTC")) == datetime(2020, 1, 1, 3, tzinfo=UTC)
    assert there_and_back(pd.Categorical(["a", "b", "a"])).tolist() == ["a", "b", "a"]
    assert list(there_and_back([np.int64(3), np.float32(0.5), np.bool_(True), np.str_("x")])) == [
        3,
        0.5,
        True,
        "x",
    ]
    assert there_and_back(np.datetime64("2020-01-01T00:00:01", "ns")) == datetime(2020, 1, 1, 0, 0, 1)


def test_polars_and_arrow() -> None:
    frame = pl.DataFrame(
        {"a": [1, None], "b": ["x", "y"], "c": [[1, 2], []], "d": [datetime(2020, 1, 1, tzinfo=UTC), None]},
        schema_overrides={"b": pl.Categorical},
    )
    assert there_and_back(frame).equals(frame)
    assert there_and_back(frame).schema == frame.schema
    assert there_and_back(frame["a"]).equals(frame["a"])
    assert there_and_back(frame["a"]).name == "a"
    table = pa.table(
        {
            "a": [1, 2],
            "s": pa.array([{"x": 1}, None]),
            "n": pa.nulls(2),
            "v": pa.array(["a", "b"], pa.string_view()),
        }
    )
    plain = table.set_column(3, "v", table["v"].cast(pa.large_string()))
    assert there_and_back(table).equals(plain)
    assert there_and_back(table["a"]).equals(table["a"])
    assert there_and_back(table.slice(1)).equals(plain.slice(1))
    assert there_and_back(pa.scalar(3)) == 3


def test_a_slice_takes_along_no_more_than_itself() -> None:
    _, [whole] = values.encode(pa.table({"a": range(100_000)}).slice(0, 1))
    assert memoryview(whole).nbytes < 1000


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (pd.DataFrame({"a": [1j]}), "t has a column that Arrow has no type for"),
        (pd.DataFrame({"a": [range(2)]}), "t['a'][0] is a range"),
        (pd.DataFrame({"a": [1]}, index=[frozenset()]), "t has a column that Arrow has no type for"),
        (pd.DataFrame([[1]], columns=pd.period_range("2020", periods=1)), "t['columns'][0][0] is a Period"),
        (
            pd.DataFrame({"a": pd.Series([[1]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))}),
            "t has a column or a label",
        ),
        (
            pl.DataFrame({"a": pl.Series([object()], dtype=pl.Object)}),
            "t has the column 'a' of Python objects",
        ),
        (pd.Timestamp("2020-01-01 00:00:00.123456789"), "t has nanoseconds"),
        (pd.Timedelta(5, "ns"), "t has nanoseconds"),
        (np.datetime64("2020-01-01T00:00:00.123456789"), "t has nanoseconds, or is too far away"),
        (np.timedelta64(5, "ns"), "t has nanoseconds, or is too far away"),
        (np.datetime64("99999-01-01"), "t has nanoseconds, or is too far away"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "t has the column 'a' more than once"),
        (
            np.array([1, "x", None], dtype=object),
            "t is an array of Python objects; pass array.tolist() instead",
        ),
        (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), "t is an array of dtype"),
        (np.ma.masked_array([1], [True]), "t is a masked array"),
        (pl.LazyFrame({"a": [1]}), "t is a query that was not run; pass frame.collect() instead"),
        (pd.Interval(1, 2), "t is a Interval"),
        (
            pa.table({"u": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([1]))}),
            "t has the column 'u'",
        ),
    ],
)
def test_what_cannot_cross(value: Any, message: str) -> None:
    with pytest.raises(values.CannotCross) as raised:
        values.encode_arguments({"t": value})
    assert str(raised.value).startswith(message)
    assert "; pass " in str(raised.value)


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


class Own(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(pa.int64(), "some.own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Own:
        raise AssertionError("code of an extension type was run")


NUMBERS = pa.table({"a": [1] * 100_000})
BOMBS: dict[str, Callable[[], bytes]] = {
    "is compressed": lambda: stream(NUMBERS, compression="zstd"),
    "is  compressed": lambda: stream(pa.table({"a": NUMBERS["a"].dictionary_encode()}), compression="lz4"),
    "type run_end_encoded": lambda: stream(
        pa.table(
            {"a": pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array(["x" * 99]))}
        ).slice(0, 1)
    ),
    "type string_view": lambda: stream(pa.table({"a": pa.array(["x"], pa.string_view())})),
    "type dense_union": lambda: stream(
        pa.table(
            {
                "a": pa.UnionArray.from_dense(
                    pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
                )
            }
        )
    ),
    "cells that become Python objects": lambda: stream(pa.table({"a": pa.nulls(arrow.MAX_OBJECTS + 1)})),
}


@pytest.mark.parametrize("words", BOMBS)
def test_tables_that_would_grow_or_run_are_refused(words: str) -> None:
    data = BOMBS[words]()
    with pytest.raises(values.BadValue) as raised:
        values.decode({"$": "pandas", "buffer": 0}, [data])
    assert " ".join(words.split()) in str(raised.value).replace("<", " ").replace(">", " ").replace(
        "type  ", "type "
    )


def test_a_type_that_is_not_known_is_what_it_is_stored_as() -> None:
    data = stream(pa.table({"a": pa.ExtensionArray.from_storage(Own(), pa.array([1]))}))
    assert values.decode({"$": "pandas", "buffer": 0}, [data])["a"].tolist() == [1]


@given(st.integers(0, 3000), st.integers(0, 255), st.integers(0, 3000))
def test_damaged_tables_are_refused_or_read_whole(place: int, byte: int, end: int) -> None:
    data = bytearray(DAMAGED)
    data[place % len(data)] = byte
    try:
        found = values.decode({"$": "arrow", "buffer": 0}, [bytes(data[: len(data) - end % 50])])
    except values.BadValue:
        return
    found.to_pylist()


DAMAGED = stream(
    pa.table(
        {
            "a": ["one", "two", None],
            "b": [[1], [2, 3], None],
            "c": pa.array(["x", "y", "x"]).dictionary_encode(),
        }
    )
)


@given(
    st.sampled_from(["<U3", "|O", "<f8", "V8", "<M8[ns]", "|S2", "O", "<i8,<i8", ">U1", 3, None]),
    st.lists(st.integers(-1, 4) | st.just(2**62) | st.just(True), max_size=4) | st.none(),
    st.binary(max_size=64),
)
def test_hostile_arrays_are_refused_or_read_whole(dtype: Any, shape: Any, data: bytes) -> None:
    try:
        found = values.decode(
            {"$": "array", "dtype": dtype, "shape": shape, "order": "C", "buffer": 0}, [data]
        )
    except values.BadValue:
        return
    assert found.nbytes == len(data)
    found.tolist()
