"""Reading lines of files on the host: what they read is what is in the file."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from codeact.inside import manifest

ROW = {"id": 1, "name": "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz"}
LARGE = [ROW] * (25 * 2**20 // len(json.dumps(ROW)))
"""As text, more than what is read whole."""


def described(path: Path) -> dict[str, Any]:
    (entry,) = manifest.describe([str(path)])["files"]
    assert isinstance(entry, dict)
    return entry


def read(path: Path, name: str) -> Any:
    entry = described(path)
    assert entry["read_verified"] is True
    names: dict[str, Any] = {}
    exec(entry["read"], names)
    return names[name]


def test_ids_with_gaps_keep_their_digits(tmp_path: Path) -> None:
    ids = [str(12345678901234560 + n) for n in range(1, 6)]
    (tmp_path / "ids.csv").write_text("id,v\n" + "".join(f"{one},1\n" for one in ids) + ",6\n")
    assert read(tmp_path / "ids.csv", "df")["id"].dropna().tolist() == ids


IDS = [12345678901234561, 12345678901234562, None]


def test_ids_with_gaps_keep_their_digits_in_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": IDS, "v": [1, 2, 3]}), tmp_path / "ids.parquet")
    assert read(tmp_path / "ids.parquet", "df")["id"].dropna().tolist() == IDS[:2]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # the line leaves its file for the interpreter to close
def test_ids_with_gaps_keep_their_digits_in_json(tmp_path: Path) -> None:
    (tmp_path / "ids.json").write_text(json.dumps([{"id": one} for one in IDS]))
    assert read(tmp_path / "ids.json", "data") == [{"id": one} for one in IDS]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_ids_that_pandas_would_round_are_not_called_verified(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ids.db")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?)", [(one,) for one in IDS])
        connection.commit()
    entry = described(tmp_path / "ids.db")
    assert entry["read_verified"] is False
    assert "lose digits in 'id'" in entry["tables"][0]["notes"][0]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_is_read_with_the_changes_that_lie_beside_it(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "w.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE t (a TEXT)")
        connection.execute("INSERT INTO t VALUES ('kept')")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA cache_size=1")  # what does not fit is written before it is committed
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 3000,)] * 100)
        if mode == "wal":
            connection.execute("COMMIT")
        given = tmp_path / "given"
        given.mkdir()
        for one in tmp_path.glob("w.db*"):
            (given / one.name).write_bytes(one.read_bytes())
        (given / "w.db-shm").unlink(missing_ok=True)
    before = sorted(given.iterdir())
    entry = described(given / "w.db")
    with closing(read(given / "w.db", "con")) as found:
        (rows,) = found.execute("SELECT count(*) FROM t").fetchone()
    assert (entry["tables"][0]["rows"], rows) == (101 if mode == "wal" else 1,) * 2
    assert entry["tables"][0]["columns"][0]["type"] == "text"
    assert "latest changes lie in the" in entry["notes"][0]
    assert sorted(given.iterdir()) == before


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_a_part_of_a_database_is_told_as_one(tmp_path: Path, end: str) -> None:
    with closing(sqlite3.connect(tmp_path / "w.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
    (tmp_path / f"w.db{end}").write_bytes(b"\x37\x7f\x06\x82" if end == "-shm" else b"")
    (tmp_path / f"notes{end}").write_text("some words\n")
    (tmp_path / "notes").write_text("others\n")
    entry = described(tmp_path / f"w.db{end}")
    assert (entry["kind"], entry.get("problem")) == ("sqlite", None)
    assert "belongs to the database 'w.db'" in entry["notes"][0]
    assert described(tmp_path / f"notes{end}")["kind"] != "sqlite"


@pytest.mark.parametrize("kind", ["parquet", "feather"])
@pytest.mark.parametrize(
    ("keys", "columns"),
    [
        (["day"], ["day", "shop", "sold"]),
        (["day", "shop"], ["day", "shop", "sold"]),
        ([], ["day", "shop", "sold"]),
    ],
)
def test_an_index_is_among_the_columns(
    tmp_path: Path, kind: str, keys: list[str], columns: list[str]
) -> None:
    frame = pd.DataFrame({"day": ["mo", "tu", "we"], "shop": [7, 8, 9], "sold": [1.5, 2.5, 3.5]})
    table = pa.Table.from_pandas(frame.set_index(keys) if keys else frame)
    path = tmp_path / f"a.{kind}"
    pq.write_table(table, path) if kind == "parquet" else feather.write_feather(table, str(path))
    entry = described(path)
    assert [column["name"] for column in entry["columns"]] == columns
    assert entry["first_rows"][0] == ["mo", "7", "1.5"]
    assert read(path, "df").to_dict("list") == frame.to_dict("list")


def test_a_range_with_a_name_is_among_the_columns(tmp_path: Path) -> None:
    years = pd.RangeIndex(2001, 2004, name="year")
    pd.DataFrame({"v": [1, 2, 3]}, index=years).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", "df")["year"].tolist() == [2001, 2002, 2003]


def test_an_index_that_cannot_be_a_column_is_told(tmp_path: Path) -> None:
    pd.DataFrame({"v": [1, 2]}, index=["a", "b"]).to_parquet(tmp_path / "a.parquet")
    entry = described(tmp_path / "a.parquet")
    assert [column["name"] for column in entry["columns"]] == ["v"]
    assert entry["first_rows"] == [["1"], ["2"]]
    assert any("index of its own (without a name)" in note for note in entry["notes"])


def test_a_series_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "total.csv"
    pd.Series([10, 20, 30, 40], name="total", index=["North", "South", "East", "West"]).to_csv(path)
    assert read(path, "df")["total"].sum() == 100


def test_a_number_beyond_floats_leaves_the_file_described(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1E400,1\n2.5,2\n3.5,3\n")
    assert read(tmp_path / "a.csv", "df")["y"].tolist() == [1, 2, 3]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # the line leaves its file for the interpreter to close
@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_large_file_on_one_line_is_not_empty(tmp_path: Path, end: str, packed: bool) -> None:
    path = tmp_path / ("rows.json.gz" if packed else "rows.json")
    text = (json.dumps(LARGE) + end).encode()
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    entry = described(path)
    assert (entry["kind"], entry.get("problem")) == ("json", None)
    names: dict[str, Any] = {}
    exec(entry["read"], names)
    assert names["data"] == LARGE


def test_lines_that_old_computers_end_are_not_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"some words of a text\r" * (25 * 2**20 // 21))
    assert described(path).get("problem") is None


def test_rows_with_names_have_a_column_for_them(tmp_path: Path) -> None:
    lines = ['"mpg" "cyl"', '"Mazda RX4" 21 6', '"Datsun 710" 22.8 4', '"Valiant" 18.1 6']
    (tmp_path / "r.csv").write_text("\n".join(lines) + "\n")
    frame = read(tmp_path / "r.csv", "df")
    assert frame.to_dict("list") == {
        "row": ["Mazda RX4", "Datsun 710", "Valiant"],
        "mpg": [21.0, 22.8, 18.1],
        "cyl": [6, 4, 6],
    }


def test_rows_that_all_end_in_a_separator_have_no_names(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("row,v\na,1,\nb,2,\nc,3,late\n")
    frame = read(tmp_path / "r.csv", "df")
    assert frame["row"].tolist() == ["a", "b", "c"]
    assert frame["v"].tolist() == [1, 2, 3]


def test_a_name_is_not_given_twice(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("row,v\na,1,7\nb,2,8\nc,3,9\n")
    assert read(tmp_path / "r.csv", "df").columns.tolist() == ["row_name", "row", "v"]


def test_codes_in_quotes_in_a_single_column_keep_their_zeros(tmp_path: Path) -> None:
    (tmp_path / "zip.csv").write_text('"zip"\n"01234"\n"02345"\n"99999"\n')
    assert read(tmp_path / "zip.csv", "df")["zip"].tolist() == ["01234", "02345", "99999"]


def test_quotes_that_a_sentence_begins_with_stay(tmp_path: Path) -> None:
    (tmp_path / "said.csv").write_text('said\n"Yes" she said\nno\n"No" he said\n')
    assert read(tmp_path / "said.csv", "df")["said"].tolist() == ['"Yes" she said', "no", '"No" he said']


@pytest.mark.parametrize(
    ("end", "names"),
    [
        ("Zoe,,,\nYan,,,\n", ["Ann", "Bob", "Cy", "Zoe", "Yan"]),
        ("Total,,,\n", ["Ann", "Bob", "Cy"]),
        ("Source: the office of statistics,,,\n", ["Ann", "Bob", "Cy"]),
        (",,,\nDraft,,,\n", ["Ann", "Bob", "Cy"]),
        ("###,,,\n1) estimated,,,\n###,,,\n", ["Ann", "Bob", "Cy"]),
    ],
)
def test_records_of_a_key_alone_are_no_footer(tmp_path: Path, end: str, names: list[str]) -> None:
    (tmp_path / "f.csv").write_text(f"name,a,b,c\nAnn,1,2,3\nBob,4,5,6\nCy,7,8,9\n{end}")
    assert read(tmp_path / "f.csv", "df")["name"].tolist() == names
