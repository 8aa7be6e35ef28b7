"""Tables as libraries draw them, read back: each value below its name, and no more of it than there is room for."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import polars as pl
import pytest

from codeact.views.tables import MAX_COLUMNS, MAX_ROWS, MAX_TEXT, Table, read_table

SALES = pd.DataFrame({"a": ["x", "x", "y"], "b": ["p", "q", "p"], "n": [1, 2, 3]})


def named() -> pd.DataFrame:
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["x", "y"], name="a"))
    return frame.rename_axis(columns="k")


FRAMES: list[tuple[str, Callable[[], pd.DataFrame | pl.DataFrame], tuple[str, ...], tuple[tuple[str, ...], ...]]] = [
    ("plain", lambda: SALES, ("", "a", "b", "n"), (("0", "x", "p", "1"), ("1", "x", "q", "2"), ("2", "y", "p", "3"))),
    ("two levels of rows", lambda: SALES.set_index(["a", "b"]), ("a", "b", "n"), (("x", "p", "1"), ("x", "q", "2"), ("y", "p", "3"))),
    ("two levels of columns",
     lambda: pd.DataFrame([[1, 2, 3]], columns=pd.MultiIndex.from_tuples([("A", "x"), ("A", "y"), ("B", "z")])),
     ("", "A x", "A y", "B z"), (("0", "1", "2", "3"),)),
    ("pivot",
     lambda: SALES.pivot_table(index="a", columns="b", values="n", aggfunc=["sum", "max"]),
     ("b a", "sum p", "sum q", "max p", "max q"),
     (("x", "1.0", "2.0", "1.0", "2.0"), ("y", "3.0", "NaN", "3.0", "NaN"))),
    ("named columns", named, ("k a", "n"), (("x", "1"), ("y", "2"))),
    ("polars", lambda: pl.DataFrame({"city": ["Oslo"], "money": [3.0]}), ("city", "money"), (('"Oslo"', "3.0"),)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "header", "rows"), [each[1:] for each in FRAMES], ids=[each[0] for each in FRAMES]
)
def test_what_a_library_draws(
    frame: Callable[[], pd.DataFrame | pl.DataFrame],
    header: tuple[str, ...],
    rows: tuple[tuple[str, ...], ...],
) -> None:
    assert read_table(frame()._repr_html_()) == Table(header, rows)


def test_what_there_is_no_room_for_is_counted() -> None:
    wide = pd.DataFrame([list(range(100))] * (MAX_ROWS + 7))
    found = read_table(wide.to_html())
    assert found is not None
    assert {len(found.header), *map(len, found.rows)} == {MAX_COLUMNS}
    assert (len(found.rows), found.left_out, found.columns_left_out) == (MAX_ROWS, 7, 101 - MAX_COLUMNS)
    assert found.rows[0][-1] == str(MAX_COLUMNS - 2)  # the first column is the index


def test_a_cell_that_is_cut_says_so() -> None:
    found = read_table(f"<table><tr><td>{'z' * MAX_TEXT}<td>{'z' * (MAX_TEXT + 1)}</table>")
    assert found == Table((), (("z" * MAX_TEXT, "z" * (MAX_TEXT - 1) + "…"),))


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<table><tr><td rowspan=2>a<td>b<tr><td>c</table>", Table((), (("a", "b"), ("a", "c")))),
        ("<table><tr><td>a<td rowspan=2>b<tr><td>c<tr><td>d<td>e</table>", Table((), (("a", "b"), ("c", "b"), ("d", "e")))),
        ("<table><tr><td rowspan=9>a<tr><tr><td>b</table>", Table((), (("a", ""), ("a", ""), ("a", "b")))),
        ("<table><tr><td colspan=x>a<td rowspan='-1'>b<td colspan=0>c</table>", Table((), (("a", "b", "c"),))),
        ("<table><tr><td rowspan=2>a<td colspan=2 rowspan=2>b<tr></table>", Table((), (("a", "b", "b"), ("a", "b", "b")))),
        ("<table><thead><tr><th rowspan=2>a<th colspan=2>b<tr><th>c<th>d</thead><tr><td>1<td>2<td>3</table>",
         Table(("a", "b c", "b d"), (("1", "2", "3"),))),
        ("<table><thead><tr><td>n<tr><td>i64</thead><tr><td>1</table>", Table(("n",), (("1",),))),
        ("<table><tr><td>a</table><table><tr><td>b</table>", Table((), (("a",),))),
        ("<table><thead><tr><th rowspan=5>a<tbody><tr><td>1</table>", Table(("a",), (("1",),))),
        ("<table><tr><td colspan=2>ab<tr><td rowspan=2>c</table>", Table((), (("ab", "ab"), ("c", "")))),
        ("<table><tr><td>a<td>b<td rowspan=2>c<tr><tr><td>d</table>", Table((), (("a", "b", "c"), ("", "", "c"), ("d", "", "")))),
        (f"<table><tr><td colspan={'9' * 5000}>a</table>", Table((), (("a",) * MAX_COLUMNS,), columns_left_out=940)),
        ("<table></table>", None),
        ("no <table", None),
    ],
)  # fmt: skip
def test_tables_of_any_form(html: str, expected: Table | None) -> None:
    assert read_table(html) == expected


def test_spans_without_bounds_cost_nothing() -> None:
    html = f"<table><tr><td colspan=999999999 rowspan=999999999>{'x' * MAX_TEXT}{'<tr>' * 499}</table>"
    found = read_table(html)
    assert found is not None
    assert (len(found.rows), {len(row) for row in found.rows}) == (500, {MAX_COLUMNS})
    assert sum(len(text) for row in found.rows for text in row) <= 2 * len(html)
    assert found.columns_left_out == 1000 - MAX_COLUMNS
