"""Tables of text: the line that reads one keeps the value of each cell, whatever the other columns are like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from codeact.inside import manifest


def frame(path: Path, text: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    path.write_text(text)
    (entry,) = manifest.describe([str(path)])["files"]
    assert entry["read_verified"] is True
    names: dict[str, Any] = {}
    exec(entry["read"], names)
    return names["df"], entry


GERMAN = "umsatz;{};name\n1.234,5;{};a\n2.345,6;{};b\n"


@pytest.mark.parametrize(
    "values",
    [
        ("52.14", "48.13"),
        ("10.0.0.1", "10.0.0.2"),
        ("1.2.3", "1.10.0"),
        ("01.02.2024", "03.02.24"),
    ],
)
def test_marks_between_thousands_are_taken_from_their_own_column(
    tmp_path: Path, values: tuple[str, str]
) -> None:
    read, entry = frame(tmp_path / "a.csv", GERMAN.format("x", *values))
    assert read["umsatz"].tolist() == [1234.5, 2345.6]
    assert read["x"].tolist() == list(values)
    assert "its marks are not those of the other columns" in entry["columns"][1]["note"]


def test_commas_of_a_list_are_not_between_thousands(tmp_path: Path) -> None:
    read, _ = frame(tmp_path / "a.csv", 'n,picked\n"1,234","1,2,3"\n"12,345","4,5"\n"1,234,567","6,7"\n')
    assert read["n"].tolist() == [1234, 12345, 1234567]
    assert read["picked"].tolist() == ["1,2,3", "4,5", "6,7"]


def test_a_cell_that_ends_in_a_backslash_ends_there(tmp_path: Path) -> None:
    paths = [r"C:\in\a.txt", "C:\\out\\", r"C:\in\b.txt", r"C:\new"]
    text = "path,n\n" + "".join(f'"{path}",{at}\n' for at, path in enumerate(paths))
    read, _ = frame(tmp_path / "a.csv", text)
    assert read["path"].tolist() == paths
    assert read["n"].tolist() == [0, 1, 2, 3]


def test_cells_that_all_end_in_a_backslash(tmp_path: Path) -> None:
    text = "path,n\n" + "".join(f'"C:\\d{at}\\",{at}\n' for at in range(6))
    assert frame(tmp_path / "a.csv", text)[0]["path"].tolist() == [f"C:\\d{at}\\" for at in range(6)]


def test_a_quote_behind_a_backslash_within_a_cell_is_one(tmp_path: Path) -> None:
    read, _ = frame(tmp_path / "a.csv", 'said,n\n"x \\"q\\" y",1\n"z, \\"w\\" v",2\n"u",3\n')
    assert read["said"].tolist() == ['x "q" y', 'z, "w" v', "u"]


@pytest.mark.parametrize("town", ["Rome, IT", "Rome"])
def test_blanks_before_a_quote_belong_to_no_cell(tmp_path: Path, town: str) -> None:
    text = f'"Name", "Town", "Age"\n"Alex", "{town}", 41\n"Bert", "{town}", 42\n"Cleo", "{town}", 53\n'
    read, entry = frame(tmp_path / "a.csv", text)
    assert read.columns.tolist() == ["Name", "Town", "Age"]
    assert read["Town"].tolist() == [town] * 3
    assert read["Age"].tolist() == [41, 42, 53]
    assert [column["name"] for column in entry["columns"]] == ["Name", "Town", "Age"]


@pytest.mark.parametrize(
    ("header", "rows", "kept"),
    [
        ("state,dens", ["ND,1", "SD,nd", "NE,ND", "WY,4"], ["ND", "SD", "NE", "WY"]),
        (
            "status,age",
            ["active,1", "unknown,unknown", "closed,3", "unknown,4"],
            ["active", "unknown", "closed", "unknown"],
        ),
    ],
)
def test_what_stands_for_missing_in_one_column_is_a_value_in_another(
    tmp_path: Path, header: str, rows: list[str], kept: list[str]
) -> None:
    read, _ = frame(tmp_path / "a.csv", "\n".join([header, *rows]) + "\n")
    assert read.iloc[:, 0].tolist() == kept
    assert read.iloc[:, 1].isna().sum() == sum(row.split(",")[1] in ("nd", "ND", "unknown") for row in rows)


def test_names_that_differ_in_blanks_stay_apart(tmp_path: Path) -> None:
    read, _ = frame(tmp_path / "a.csv", "a,a ,b\n1,2,3\n4,5,6\n")
    assert read.columns.tolist() == ["a", "a ", "b"]
