"""The standard-library parts of the manifest that make tables of logs and of nested records."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact.inside import flat, logs, structured


def taken(lines: list[str]) -> tuple[tuple[str, ...], list[Any]]:
    """The columns, and what the pattern takes from the lines."""
    form = logs.find(lines)
    assert form is not None
    settled = form.settled("\n".join(lines))
    return settled.columns, re.findall(settled.pattern, "\n".join(lines), re.MULTILINE)


@pytest.mark.parametrize(
    ("line", "columns", "row"),
    [
        (
            "2024-03-01 10:00:05 INFO [auth] user bob",
            ("time", "level", "bracketed", "message"),
            ("2024-03-01 10:00:05", "INFO", "auth", "user bob"),
        ),
        (
            "2024-03-01T10:00:05.120Z ERROR [a] [b c] x 1",
            ("time", "level", "bracketed", "bracketed_2", "message"),
            ("2024-03-01T10:00:05.120Z", "ERROR", "a", "b c", "x 1"),
        ),
        (
            "2024-03-01 10:00:05,123 - app.db - WARNING - slow",
            ("time", "name", "level", "message"),
            ("2024-03-01 10:00:05,123", "app.db", "WARNING", "slow"),
        ),
        (
            "[2024-03-01 10:00:05] [error] [client] gone",
            ("time", "level", "bracketed", "message"),
            ("2024-03-01 10:00:05", "error", "client", "gone"),
        ),
        (
            "2024-03-01 10:00:05 | INFO | mod1 | it works",
            ("time", "level", "name", "message"),
            ("2024-03-01 10:00:05", "INFO", "mod1", "it works"),
        ),
        (
            "Mar  1 10:00:05 host1 sshd[12]: Failed password",
            ("time", "host", "program", "pid", "message"),
            ("Mar  1 10:00:05", "host1", "sshd", "12", "Failed password"),
        ),
        (
            "2024/03/01 10:00:05 [error] 29#29: *1 open() failed",
            ("time", "level", "message"),
            ("2024/03/01 10:00:05", "error", "29#29: *1 open() failed"),
        ),
        (
            "[Sun Dec 04 04:47:44 2005] [notice] ok",
            ("time", "level", "message"),
            ("Sun Dec 04 04:47:44 2005", "notice", "ok"),
        ),
        (
            '10.0.0.1 - bob [01/Mar/2024:10:00:00 +0100] "GET /a HTTP/1.1" 200 -',
            ("client", "ident", "user", "time", "method", "path", "protocol", "status", "size"),
            ("10.0.0.1", "-", "bob", "01/Mar/2024:10:00:00 +0100", "GET", "/a", "HTTP/1.1", "200", "-"),
        ),
        (
            "2024-03-01 10:00:05 INFO user=bob action=login ms=12",
            ("time", "level", "user", "action", "ms"),
            ("2024-03-01 10:00:05", "INFO", "bob", "login", "12"),
        ),
        ("ERROR: disk full", ("level", "message"), ("ERROR", "disk full")),
    ],
)
def test_a_form_names_its_fields(line: str, columns: tuple[str, ...], row: tuple[str, ...]) -> None:
    assert taken([line] * 4) == (columns, [row] * 4)


def test_brackets_that_some_lines_lack_are_a_column_all_the_same() -> None:
    lines = ["2024-03-01 10:00:05 INFO [a] x", "2024-03-01 10:00:06 ERROR y"] * 5
    columns, rows = taken(lines)
    assert columns == ("time", "level", "bracketed", "message")
    assert [row[1:] for row in rows[:2]] == [("INFO", "a", "x"), ("ERROR", "", "y")]


def test_lines_that_only_resemble_the_form_are_not_taken() -> None:
    lines = ["2024-03-01 10:00:05 INFO x"] * 5 + ["2024-bad line HERE x", "  at main.py"]
    columns, rows = taken(lines)
    assert (columns, len(rows)) == (("time", "level", "message"), 5)


def test_lines_of_pairs_may_hold_other_keys_each() -> None:
    form = logs.find(['a=1 b="x y"', "a=2 c=3", "a=4 b=z"])
    assert form is not None
    assert form.pairs
    assert re.findall(form.pattern, 'a=1 b="x y"') == [("a", "1"), ("b", '"x y"')]


@pytest.mark.parametrize(
    "lines",
    [
        ["It was late.", "Bob went out at 10:00:00.", "He said: hello."] * 3,
        ["# Title", "- one", "- two: 3"] * 3,
        ["INFO only", "nothing"],
        ["alpha beta gamma"] * 5,
        [],
        ["", " "],
    ],
)
def test_free_text_has_no_form(lines: list[str]) -> None:
    assert logs.find(lines) is None


@given(st.lists(st.text(alphabet="ab1 :-[]=\"'|.,0:/INFO", max_size=40), max_size=8))
def test_any_lines_have_a_form_that_compiles_or_none(lines: list[str]) -> None:
    form = logs.find(lines)
    if form is not None and not form.pairs:
        settled = form.settled("\n".join(lines))
        assert re.compile(settled.pattern).groups == len(settled.columns)
        assert "'" not in settled.pattern


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([{"a": 1}, {"a": 2, "b": [1, 2]}], "pd.DataFrame(data)"),
        ([{"a": {"b": 1}}, {"a": {"c": {"d": 2}}}], "pd.json_normalize(data)"),
        (
            [{"id": 1, "p": {"q": 2}, "items": [{"n": 1}]}],
            "pd.json_normalize(data, record_path='items', meta=['id', ['p', 'q']], record_prefix='items.')"
            ".infer_objects()",
        ),
        ([{"id": 1, "items": [{"n": 1}]}, {"id": 2, "items": []}], None),
        ([{"id": 1, "items": [{"n": 1}]}, {"items": [{"n": 1}]}], None),
        ([{"x": [[1], [2]], "id": 1}], None),
        ([{"a": [{"n": 1}], "b": [{"n": 1}]}], None),
        ([{"a": {"b": 1}, "a.b": 2}], None),
        ([1, 2], None),
        ([], None),
    ],
)
def test_records_are_a_table_where_that_loses_nothing(records: list[Any], code: str | None) -> None:
    made = flat.table("data", records)
    assert (made.code if made else None) == code


def test_a_sketch_says_that_lists_differ_in_length() -> None:
    text = structured.sketch([{"t": [{"n": 1}]}, {"t": [{"n": 1}, {"n": 2}]}])
    assert text == "list of 2 {t: list of up to 2 {n: int}}"
