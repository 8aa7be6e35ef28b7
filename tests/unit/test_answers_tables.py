"""Answers of NumPy, pandas and Arrow: made plain, nothing of them is lost or becomes something else."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sandbox.guest
import sandbox.guest.host

sys.modules.setdefault("sandbox_guest", sandbox.guest)
sys.modules.setdefault("sandbox_guest.host", sandbox.guest.host)
from codeact.inside.answers import plain  # noqa: E402 - it is made for the inside, where that name exists

NANOSECONDS = np.array(["2026-01-01", "2026-01-02T06:30", "NaT"], dtype="datetime64[ns]")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NANOSECONDS, ["2026-01-01", "2026-01-02T06:30:00", None]),
        (NANOSECONDS[1], "2026-01-02T06:30:00"),
        (NANOSECONDS[:2].reshape(1, 2), [["2026-01-01", "2026-01-02T06:30:00"]]),
        ({NANOSECONDS[0]: 1}, {"2026-01-01": 1}),
        (np.datetime64("2026-01-31"), "2026-01-31"),
        (np.array([90, 30], dtype="timedelta64[m]").astype("timedelta64[ns]"), ["1:30:00", "0:30:00"]),
        (np.timedelta64(1_500_000, "ns"), "0:00:00.001500"),
        (
            pd.Series([10, 20, 30], index=pd.Index(["North", "North", "South"], name="region"), name="n"),
            [{"region": "North", "n": 10}, {"region": "North", "n": 20}, {"region": "South", "n": 30}],
        ),
        (pd.Series([1, 2], index=["a", "a"]), [{"index": "a", "0": 1}, {"index": "a", "0": 2}]),
        (pd.Series([1, 2], index=["a", "b"]), {"a": 1, "b": 2}),
        (pa.table({"a": [1, 2], "b": ["x", None]}), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        (pa.array([1, 2]), [1, 2]),
        (pa.chunked_array([[1], [2]]), [1, 2]),
    ],
)
def test_what_libraries_hold_stays_what_it_is(value: Any, expected: Any) -> None:
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]), "the column 'a' is there twice: rename one"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "the keys 1 and '1' of the answer are the same as text"),
        ({1: "whole", "1": "text"}, "the keys 1 and '1' of the answer are the same as text: rename one"),
        ([{"rows": {None: 1, "None": 2}}], "are the same as text"),
        (pd.Series([1, 2], index=[1, "1"]), "are the same as text"),
        (pa.table([[1], [2]], names=["a", "a"]), "the column 'a' is there twice"),
    ],
)
def test_nothing_of_an_answer_is_lost_unseen(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plain(value)
