"""What the model is shown of a cell."""

from __future__ import annotations

import pytest

from codeact.observation import NOTHING, cell_text, cut, is_empty, names_text
from sandbox.types import CellError, CellResult, Dropped, Notice, Rich, Rung, Stream, Variable


def test_everything_stands_in_the_order_it_came() -> None:
    cell = CellResult(
        "error",
        (
            Stream("stdout", "one\n"),
            Stream("stderr", "two\n"),
            Rich("display", {"text/plain": "<table>", "text/html": "<b>"}),
            Dropped(70, "more output than the limit"),
            Notice("an interrupt was sent"),
            CellError("KeyError", "'x'", "Traceback\nKeyError: 'x'"),
        ),
    )
    assert cell_text(cell) == (
        "one\ntwo\n<table>\n\n... 70 bytes were not kept: more output than the limit ...\n"
        "\n(an interrupt was sent)\n\nTraceback\nKeyError: 'x'"
    )


def test_a_figure_is_named_and_its_repr_is_not() -> None:
    cell = CellResult("ok", (Rich("display", {"text/plain": "<Figure size 640x480>", "image/png": "AAAA"}),))
    assert cell_text(cell, pictures=1) == "(1 figure displayed and saved)"
    assert cell_text(CellResult("ok", ())) == NOTHING


def test_a_cell_that_was_stopped_says_how_far_that_went_and_what_is_left() -> None:
    outputs = (Stream("stdout", "row 1\n"), Rung(1, "interrupt", "an interrupt was sent", 30.0021))
    kept = (
        Variable("df", "DataFrame 60×4", 1_992_294),
        Variable("words", "list of 3"),
        Variable("n", "int", 28),
    )
    assert cell_text(CellResult("timeout", outputs, survived=kept)) == (
        "row 1\n\n(step 1 of 5, after 30 s: an interrupt was sent)\n"
        "(variables that are still there: df (DataFrame 60×4, 1.9 MiB), words (list of 3), n (int, 28 bytes))"
    )
    assert cell_text(CellResult("timeout", survived=())) == "(there are no variables)"


def test_a_death_says_what_is_left() -> None:
    assert cell_text(CellResult("died", (), lost="all variables")).endswith(
        "(lost: all variables; files in /workspace are still there)"
    )
    assert "are gone too" in cell_text(CellResult("died", (), lost="everything: the stream broke"))


def test_a_long_text_keeps_its_ends_whole_and_says_where_the_rest_is() -> None:
    lines = [f"line {n}" for n in range(1000)]
    kept: list[str] = []

    def keep(text: str) -> str:
        kept.append(text)
        return "/workspace/.outputs/1.txt"

    text = cut("\n".join(lines), 300, keep)
    assert kept == ["\n".join(lines)]
    head, middle, *tail = (
        text.partition("\n... ")[0],
        text.split("\n... ")[1].split(" ...\n")[0],
        text.split(" ...\n")[1],
    )
    assert head.splitlines() == lines[: len(head.splitlines())]
    assert tail[0].splitlines() == lines[-len(tail[0].splitlines()) :]
    left_out = len("\n".join(lines)) - len(head) - len(tail[0])
    assert middle == f"{left_out} characters left out; the full text is in /workspace/.outputs/1.txt"
    assert cut("short", 300, keep) == "short"
    assert len(kept) == 1


def test_one_endless_line_is_cut_as_well() -> None:
    text = cut("x" * 100_000, 300)
    assert len(text) < 400
    assert text.startswith("x" * 200)
    assert text.endswith("x" * 100)


def test_names() -> None:
    assert names_text({"df": "DataFrame 60×4", "n": "int"}) == "df (DataFrame 60×4), n (int)"


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        ("Series([], Name: n, dtype: int64)", True),
        ("Empty DataFrame\nColumns: [a]\nIndex: []", True),
        ("[]\n", True),
        ("nan", True),
        ("0", False),
        ("[1]", False),
        ("total\nSeries([], dtype: int64)", False),
    ],
)
def test_what_shows_nothing_is_noticed(text: str, empty: bool) -> None:
    assert is_empty(text) is empty


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        ("Rows:\n" + "x" * 50_000 + "\ndone", "Rows:\nxxx", "xxx\ndone"),
        ("x" * 50_000, "xxx", "xxx"),
        ("\n" + "x" * 50_000 + "\n", "\nxxx", "xxx\n"),
    ],
)
def test_a_line_longer_than_all_there_is_room_for_is_shown_in_part(text: str, begins: str, ends: str) -> None:
    shown = cut(text, 8000)
    assert shown.startswith(begins)
    assert shown.endswith(ends)
    assert shown.count("x") > 7900
