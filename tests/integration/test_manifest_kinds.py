"""The manifest of every kind of file that a run takes: told rightly, and read by exactly the line that is offered."""

import gzip
import io
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from codeact.manifest import render
from tests.integration.manifest_guest import MESSY, Guest, guest_with, one

FORMATS = Path(__file__).parent / "read_all_formats.py"

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with guest_with(
        {"stock.xls": MESSY / "made" / "stock.xls", "ids.csv": MESSY / "files" / "duplicate-headers.csv"}
    ) as running:
        yield running


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.csv",
            "имя;сумма\nАнна;1,5\nБорис;2,75\nВера;10,25\n".encode("cp1251"),
            {"encoding": "cp1251", "separator": ";", "rows": 3},
        ),
        (
            "a.csv",
            "都道府県,人口\n東京都,1\n大阪府,2\n".encode("shift_jis"),
            {"encoding": "cp932", "rows": 2},
        ),
        (
            "a.csv",
            "\ufeffn\tv\nå\t1\nb\t2\n".encode("utf-16-le"),
            {"encoding": "utf-16", "separator": "\t", "rows": 2},
        ),
        ("a.csv", b"id;price\n1;1.234,50\n2;99,90\n", {"separator": ";", "rows": 2}),
        ("a.csv", b"region,sales\nEMEA,1\nNA,2\nAPAC,3\n", {"rows": 3}),
        ("a.csv", b"id,name,note\n1,a,x\n2,b\n3,c,y,extra\n4,d,z\n", {"rows": 4}),
        ("a.csv", b'id,t\n1,"open\n2,b\n3,c\n4,d\n', {"rows": 4}),
        (
            "a.txt",
            b"name    age  city\nAnn B   23   New York\nBob C   41   Los Angeles\n",
            {"separator": r"\s{2,}", "rows": 2},
        ),
        (
            "a.csv.gz",
            gzip.compress(b"id;x\n1;2\n3;4\n", mtime=0),
            {"container": ["gzip"], "separator": ";", "rows": 2},
        ),
        ("a.csv", gzip.compress(b"id,x\n1,2\n3,4\n", mtime=0), {"container": ["gzip"], "rows": 2}),
        ("a.zip", zipped({"b.csv": b"id,x\n1,2\n3,4\n"}), {"kind": "zip", "members_count": 1}),
        ("a.csv", b'[{"a": 1}, {"a": 2}]', {"kind": "json", "rows": 2}),
        ("a.json", b'{"a": 1}\n{"a": 2}\n', {"kind": "jsonl", "rows": 2}),
        ("a.json", b'{"a": "x} {"}{"a": "y"}{"a": "z"}', {"kind": "json", "rows": 3, "read_verified": False}),
        ("a.json", b'{"a": 1}{"a": 2}{"a": 3}', {"kind": "json", "rows": 3}),
        ("a.jsonl", b'{\n  "a": 1\n}\n{\n  "a": 2\n}\n', {"kind": "jsonl", "rows": 2}),
        ("a.xls", b"<table><tr><th>a</th></tr><tr><td>1</td></tr></table>", {"kind": "html", "rows": 1}),
        ("a.xls", b"a\tb\n1\t2\n3\t4\n", {"separator": "\t", "rows": 2}),
        (
            "a.csv",
            "都市,商品,価格\n東京,りんご,100\n大阪,みかん,80\n名古屋,ぶどう,300\n".encode("cp932"),
            {"encoding": "cp932"},
        ),
        (
            "a.xml",
            b'<?xml version="1.0"?><c><b i="1"/><b i="2"/></c>',
            {"kind": "xml", "root": "c", "repeated": "b", "rows": 2},
        ),
        ("a.html", b"<html><table><tr><th>a</th></tr><tr><td>1</td></tr></table></html>", {"kind": "html"}),
        ("a.log", b"2021-01-01 10:00:00,123 INFO started, now\n" * 5, {"kind": "log", "rows": 5}),
    ],
)
def test_other_kinds(guest: Guest, name: str, content: bytes, expected: dict[str, Any]) -> None:
    guest.box.write(f"made/{name}", content)
    entry = one(guest.describe(f"made/{name}"))
    expected = {"read_verified": True} | expected
    assert {key: entry.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "empty"),
        ("blank.csv", b"\n\n", "blank lines only"),
        ("broken.xlsx", b"PK\x03\x04" + b"x" * 100, "broken"),
        ("cut.csv.gz", gzip.compress(b"a,b\n1,2\n" * 5000, mtime=0)[:-30], "cut-off gzip"),
        ("cut.zip", zipped({"a.csv": b"a" * 1000})[:60], "broken"),
        ("bomb.zip", zipped({"a.csv": b"0" * (80 << 20)}), "200 times"),
        ("fake.parquet", b"PAR1xxxxPAR1", "cannot be opened"),
        ("fake.sqlite", b"SQLite format 3\0" + b"\xff" * 200, "cannot be opened"),
        ("binary.csv", bytes(range(256)) * 20, "not text"),
        ("bad.json", b'{"a": [1,}', "not valid JSON"),
        ("deep.json", b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        ("bad.xml", b"<a><b></a>", "not well-formed"),
        ("bad.pdf", b"%PDF-1.4 nothing", "cannot be read"),
        ("bad.png", b"\x89PNG\r\n\x1a\nnothing", "cannot be opened"),
    ],
)
def test_a_broken_file_has_a_problem_and_costs_nothing_else(
    guest: Guest, name: str, content: bytes, words: str
) -> None:
    guest.box.write(f"made/{name}", content)
    broken, good = guest.describe(f"made/{name}", "data/ids.csv")["files"]
    problems = [broken.get("problem", "")] + [
        member.get("problem", "") for member in broken.get("described", [])
    ]
    assert any(words in problem for problem in problems)
    assert good["rows"] == 2


@pytest.mark.parametrize(
    ("content", "kind", "code", "answer"),
    [
        (
            "day,v\n2024-01-01,1\n,2\n2024-03-05,3\n",
            "datetime",
            "answer = df['day'].dt.month.dropna().tolist()",
            [1, 3],
        ),
        ("day,v\n13/01/2024,1\n05/02/2024,2\n", "datetime", "answer = df['day'].dt.month.tolist()", [1, 2]),
        (
            "day,v\n2024-01-01,1\n2024-02-31,2\n",
            "date as text",
            "answer = df['day'].tolist()[1]",
            "2024-02-31",
        ),
        (
            "day,v\n03/04/2024,1\n05/06/2024,2\n",
            "date as text",
            "answer = df['day'].tolist()[1]",
            "05/06/2024",
        ),
        ("2024-01-01,007\n2024-01-02,012\n", "datetime", "answer = df[1].tolist()", ["007", "012"]),
    ],
)
def test_dates_are_told_as_the_line_makes_them(
    guest: Guest, content: str, kind: str, code: str, answer: Any
) -> None:
    guest.box.write("made/a.csv", content)
    entry = one(guest.describe("made/a.csv"))
    assert entry["columns"][0]["type"] == kind
    assert guest.evaluate(f"{entry['read']}\n{code}") == answer


@pytest.mark.parametrize(
    ("content", "words", "answer"),
    [
        ("paid,v\ntrue,1\nfalse,2\n", "paid (bool: True or False)", [True, False]),
        ("paid,v\ntrue,1\n,2\n", "paid (bool: True or False; 1 missing)", [True]),
        ("paid,v\nyes,1\nno,2\n", "paid (text, one of 'yes', 'no')", ["yes", "no"]),
    ],
)
def test_flags_are_told_as_the_line_makes_them(
    guest: Guest, content: str, words: str, answer: list[Any]
) -> None:
    guest.box.write("made/a.csv", content)
    manifest = guest.describe("made/a.csv")
    assert words in render(manifest)
    assert guest.evaluate(f"{one(manifest)['read']}\nanswer = df['paid'].dropna().tolist()") == answer


@pytest.mark.parametrize(
    ("content", "words", "code"),
    [
        ("name,2019,2020\na,1,2\nb,3,4\n", "'2019' (integer 1..3)", "answer = int(df['2019'].sum())"),
        ("1,2\n3,4\n1,5\n", "columns (all 2): 0 (integer 1..3)", "answer = int(df[0].sum()) - 1"),
    ],
)
def test_names_that_are_digits_are_text_or_numbers_as_in_the_table(
    guest: Guest, content: str, words: str, code: str
) -> None:
    guest.box.write("made/a.csv", content)
    manifest = guest.describe("made/a.csv")
    assert words in render(manifest)
    assert guest.evaluate(f"{one(manifest)['read']}\n{code}") == 4


def test_a_total_row_is_left_out_as_its_note_says(guest: Guest) -> None:
    guest.box.write("made/a.csv", "shop,sum\na,1\nb,2\nTotal,3\n")
    (note,) = [note for note in one(guest.describe("made/a.csv"))["notes"] if "total row" in note]
    line = "import pandas as pd; df = pd.read_csv('made/a.csv')"
    statement = note.partition("leave them out: ")[2]
    assert guest.evaluate(f"{line}\n{statement}\nanswer = int(df['sum'].sum())") == 3


def test_what_is_no_file_is_said(guest: Guest) -> None:
    guest.evaluate("import os; answer = os.mkfifo('fifo')")
    missing, pipe = guest.describe("made/nothing.csv", "fifo")["files"]
    assert (missing["problem"], pipe["problem"]) == ("no such file", "not a regular file")


@pytest.fixture(scope="module")
def formats(guest: Guest) -> None:
    """One table in every format, written by the image's own packages."""
    cell = guest.box.run(FORMATS.read_text("utf-8"))
    assert cell.status == "ok", cell.error


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("t.xls", "xls", "sheets"),
        ("t.xlsx", "xlsx", "sheets"),
        ("t.ods", "ods", "sheets"),
        ("t.csv", "csv", ""),
        ("t.tsv", "tsv", ""),
        ("t.csv.gz", "csv", ""),
        ("t.csv.zst", "csv", ""),
        ("t.csv.zip", "zip", "described"),
        ("t.parquet", "parquet", ""),
        ("t.feather", "feather", ""),
        ("t.json", "json", ""),
        ("t.jsonl", "jsonl", ""),
        ("t.xml", "xml", ""),
        ("t.html", "html", ""),
        ("t.sqlite", "sqlite", "tables"),
        ("t.duckdb", "duckdb", "tables"),
    ],
)
@pytest.mark.usefixtures("formats")
def test_a_table_in_any_format_is_read_as_its_line_says(
    guest: Guest, name: str, kind: str, part: str
) -> None:
    entry = one(guest.describe(name))
    assert (entry["kind"], entry["read_verified"]) == (kind, True)
    told = entry[part][0] if part else entry
    assert [column["name"] for column in told["columns"]] == ["n", "s"]
    assert (told["rows"], told["first_rows"], told["read_verified"]) == (2, [["1", "a"], ["2", "ü"]], True)
    assert guest.evaluate(f"{told['read']}\nanswer = df.to_numpy().tolist()") == [[1, "a"], [2, "ü"]]


@pytest.mark.parametrize(
    ("name", "expected", "code", "answer"),
    [
        ("t.pdf", {"kind": "pdf", "pages": 1, "first_lines": ["Hello pdf"]}, "answer = pages", ["Hello pdf"]),
        ("t.png", {"kind": "image", "format": "PNG", "width": 2, "height": 3}, "answer = image.size", [2, 3]),
        ("t.txt", {"kind": "text", "encoding": "cp1252", "lines": 1}, "answer = lines[0][:10]", "Fünf Äpfel"),
    ],
)
@pytest.mark.usefixtures("formats")
def test_what_is_no_table_is_read_as_its_line_says(
    guest: Guest, name: str, expected: dict[str, Any], code: str, answer: Any
) -> None:
    entry = one(guest.describe(name))
    assert {key: entry.get(key) for key in expected} == expected
    assert entry["read_verified"] is True
    assert guest.evaluate(f"{entry['read']}\n{code}") == answer


def test_an_excel_97_workbook_keeps_codes_and_dates(guest: Guest) -> None:
    entry = one(guest.inputs["data/stock.xls"])
    assert [(sheet["name"], sheet["rows"]) for sheet in entry["sheets"]] == [("Stock", 2), ("Empty", 0)]
    assert guest.evaluate(f"{entry['read']}\nanswer = df.to_numpy().tolist()") == [
        ["007", 3, "2024-01-02 00:00:00"],
        ["012", 4, "2024-02-03 00:00:00"],
    ]


def test_members_of_a_zip_are_described_each_with_its_line(guest: Guest) -> None:
    members = {
        "a.csv": b"day,v\n2024-01-01,1\n2024-01-02,2\n",
        "sub/b.json": b'[{"k": 1}]',
        "__MACOSX/._a": b"x",
    }
    guest.box.write("made/many.zip", zipped(members))
    manifest = guest.describe("made/many.zip")
    lines = [member["read"] for member in one(manifest)["described"]]
    assert [guest.evaluate(f"{line}\nanswer = [len(df), *df.columns]") for line in lines] == [
        [2, "day", "v"],
        [1, "k"],
    ]
    assert "member 'sub/b.json' — json" in render(manifest)


def test_codes_with_leading_zeros_stay_text_in_pages_and_xml(guest: Guest) -> None:
    guest.box.write("made/a.xml", '<l><r id="007"><v>1</v></r><r id="008"><v>2</v></r></l>')
    guest.box.write(
        "made/a.html", "<table><tr><th>id</th></tr><tr><td>007</td></tr><tr><td>008</td></tr></table>"
    )
    for entry in guest.describe("made/a.xml", "made/a.html")["files"]:
        assert guest.evaluate(f"{entry['read']}\nanswer = df['id'].tolist()") == ["007", "008"]


def test_numbers_with_decimal_commas_in_pages_are_read_as_such(guest: Guest) -> None:
    rows = "<tr><th>a</th><th>b</th></tr><tr><td>6,5</td><td>1.234,50</td></tr>"
    guest.box.write("made/a.html", f"<table>{rows}</table>")
    entry = one(guest.describe("made/a.html"))
    assert guest.evaluate(f"{entry['read']}\nanswer = df.iloc[0].tolist()") == [6.5, 1234.5]


LONG = 12345678901234561


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"c": ["DE", "FR", "NA", "IT"], "v": ["1", "2", "3", "4"]}, {"c": ["DE", "FR", "NA", "IT"], "v": [1, 2, 3, 4]}),
        ({"id": [str(LONG), str(LONG + 1), "", str(LONG + 3)]}, {"id": [str(LONG), str(LONG + 1), None, str(LONG + 3)]}),
        ({"id": ["1" * 22, "2" * 22]}, {"id": ["1" * 22, "2" * 22]}),
        ({"name": ["a", "NA", ""]}, {"name": ["a", None, None]}),
    ],
)  # fmt: skip
def test_codes_and_long_ids_stay_what_they_are_in_pages_and_xml(
    guest: Guest, cells: dict[str, list[str]], expected: dict[str, list[object]]
) -> None:
    rows = list(zip(*cells.values(), strict=True))
    records = "".join(
        "<o>" + "".join(f"<{key}>{cell}</{key}>" if cell else "" for key, cell in zip(cells, row, strict=True)) + "<w>1</w></o>"
        for row in rows
    )  # fmt: skip
    guest.box.write("made/codes.xml", f"<r>{records}</r>")
    guest.box.write("made/codes.html", page(cells | {"w": ["1"] * len(rows)}))
    for entry in guest.describe("made/codes.xml", "made/codes.html")["files"]:
        assert entry["read_verified"] is True
        read = guest.evaluate(
            f"{entry['read']}\nanswer = df[{list(cells)!r}].astype(object).where(df.notna(), None).to_dict('list')"
        )
        assert read == expected, entry["kind"]


def page(*tables: dict[str, list[str]]) -> str:
    """Tables as a page has them, by their columns."""
    return "".join(
        "<table><tr>"
        + "".join(f"<th>{name}</th>" for name in table)
        + "</tr>"
        + "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
            for row in zip(*table.values(), strict=True)
        )
        + "</table>"
        for table in tables
    )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (
            {"day": ["01.02.2024", "02.02.2024"], "host": ["10.0.0.1", "10.0.0.2"], "sum": ["1.234,51", "7,52"], "n": ["1", "2"]},
            {"day": ["01.02.2024", "02.02.2024"], "host": ["10.0.0.1", "10.0.0.2"], "sum": [1234.51, 7.52], "n": [1, 2]},
        ),
        ({"list": ["1,2", "3"], "people": ["1,234,567", "8.5"]}, {"list": ["1,2", "3"], "people": [1234567, 8.5]}),
        ({"list": ["1,2", "3"], "people": ["1,234", "-"], "v": ["1.5", "2.5"]}, {"list": ["1,2", "3"], "people": ["1,234", "-"], "v": [1.5, 2.5]}),
        ({"people": ["1,234", "N/A", "", "5"], "n": list("abcd")}, {"people": [1234, None, None, 5], "n": list("abcd")}),
        ({"list": ["1,2", "3", "4"], "people": ["1,234.5", "N/A", "5.5"]}, {"list": ["1,2", "3", "4"], "people": [1234.5, None, 5.5]}),
        ({"sum": ["1.234,51", "7,52"], "n": ["1.234", "5"]}, {"sum": [1234.51, 7.52], "n": [1234, 5]}),
    ],
)  # fmt: skip
def test_marks_between_thousands_are_taken_from_numbers_only(
    guest: Guest, cells: dict[str, list[str]], expected: dict[str, list[object]]
) -> None:
    guest.box.write("made/marks.html", page(cells))
    entry = one(guest.describe("made/marks.html"))
    assert (entry["read_verified"], entry["notes"]) == (True, [])
    read = guest.evaluate(
        f"{entry['read']}\nanswer = df.astype(object).where(df.notna(), None).to_dict('list')"
    )
    assert read == expected


def test_each_table_of_a_page_is_read_as_it_is_written(guest: Guest) -> None:
    guest.box.write("made/two.html", page({"a": ["1,2", "3"]}, {"b": ["1,234.5", "5.5"]}))
    line = one(guest.describe("made/two.html"))["read"]
    assert guest.evaluate(f"{line}\nanswer = [tables[0]['a'].tolist(), tables[1]['b'].tolist()]") == [
        ["1,2", "3"],
        [1234.5, 5.5],
    ]


@pytest.mark.parametrize(("start", "end"), [("", ""), ("<l>", "</l>")])
def test_fields_of_a_record_are_told_with_their_values(guest: Guest, start: str, end: str) -> None:
    records = "<o><id>1</id><v>x</v></o><o><id>2</id><v>y</v></o>"
    guest.box.write("made/fields.xml", f"<r xmlns='urn:x'>{start}{records}{end}</r>")
    entry = one(guest.describe("made/fields.xml"))
    assert (entry["rows"], entry["fields"]) == (2, {"id": "1", "v": "x"})


def test_a_workbook_with_merged_headers_a_total_and_errors(guest: Guest) -> None:
    made = """
import openpyxl
book = openpyxl.Workbook()
sheet = book.active
for row in ["Report"], [], ["Region", "2023", None, "2024", None], [None, "Q1", "Q2", "Q1", "Q2"], \\
        ["N", 1, 2, 3, 4], ["S", 5, 6, 7, 8], ["E", 9, 10, 11, "#N/A"], ["Total", None, None, None, None]:
    sheet.append(row)
sheet.merge_cells("B3:C3")
hidden = book.create_sheet("old")
hidden.sheet_state = "hidden"
hidden.append(["a"])
hidden.append([1])
book.save("made/a.xlsx")
answer = None
"""
    guest.evaluate(made)
    entry = one(guest.describe("made/a.xlsx"))
    assert any("in 1 of the cells" in note for note in entry["notes"])
    table, old = entry["sheets"]
    assert (table["rows"], table["read_verified"]) == (3, True)
    assert old["notes"] == ["hidden in the workbook"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1.234, 5.0, 12.125, 7.0], ("decimal", "1.234", "12.125")),
        ([-1.234, 5.5, 12.125, 7.25], ("decimal", "-1.234", "12.125")),
        ([1.234, None, 12.125, 300], ("decimal", "1.234", "300")),
        ([1234, 5, 12125, 7], ("integer", "5", "12125")),
        (["1.234", "5", "12.125", "7"], ("integer", "5", "12125")),
    ],
)
def test_numbers_of_a_sheet_are_what_they_are_and_marks_of_text_are_told(
    guest: Guest, values: list[object], told: tuple[str, str, str]
) -> None:
    guest.evaluate(f"""
import openpyxl
book = openpyxl.Workbook()
for row in [["name", "kg", "host"], *([f"n{{at}}", value, f"10.0.0.{{at}}"] for at, value in enumerate({values!r}))]:
    book.active.append(row)
book.save("numbers.xlsx")
answer = None""")
    (sheet,) = one(guest.describe("numbers.xlsx"))["sheets"]
    (_, weight, _) = sheet["columns"]
    assert (weight["type"], weight["min"], weight["max"]) == told
    found = guest.evaluate(f"{sheet['read']}\nanswer = [df['kg'].min(), df['kg'].max()]")
    assert [float(one) for one in found] == [float(one) for one in told[1:]]
    if not isinstance(values[0], str):
        assert "thousands" not in sheet["read"]
        assert "note" not in weight
        hosts = guest.evaluate(f"{sheet['read']}\nanswer = df['host'].tolist()")
        assert hosts == [f"10.0.0.{at}" for at in range(4)]


def test_tables_of_duckdb_are_found_in_their_schema(guest: Guest) -> None:
    guest.evaluate(
        "import duckdb; c = duckdb.connect('made/a.duckdb'); c.execute('create schema s; create table s.t as select 5 x'); "
        "c.close(); answer = None"
    )
    table = one(guest.describe("made/a.duckdb"))["tables"][0]
    assert (table["name"], table["rows"], table["read_verified"]) == ("s.t", 1, True)


def test_a_database_is_described_by_its_tables(guest: Guest, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    connection.execute('CREATE TABLE "odd ""name" (a INTEGER, b TEXT)')
    connection.executemany('INSERT INTO "odd ""name" VALUES (?, ?)', [(1, "x"), (2, "y")])
    connection.commit()
    connection.close()
    guest.box.put(tmp_path / "a.sqlite", "made/a.sqlite")
    table = one(guest.describe("made/a.sqlite"))["tables"][0]
    assert (table["name"], table["rows"], table["read_verified"]) == ('odd "name', 2, True)
    assert table["columns"][0] == {"name": "a", "missing": 0, "type": "integer", "min": "1", "max": "2"}


def test_a_database_that_is_given_with_its_latest_changes_is_there_with_them(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "w.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=wal")
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        given = {name: tmp_path / name for name in ("w.db", "w.db-wal")}
        with guest_with(given) as running:
            (entry,) = running.inputs["data/w.db"]["files"]
            assert (entry["loaded"], entry["tables"][0]["rows"]) == (True, 2)
            assert running.evaluate(
                f"{entry['read']}\nanswer = con.execute('SELECT sum(a) FROM t').fetchone()"
            ) == [3]


def test_a_folder_of_very_many_files_is_summed_up(guest: Guest) -> None:
    guest.evaluate("""
import pathlib; folder = pathlib.Path('many'); folder.mkdir()
for at in range(3000):
    (folder / f"f{at}.{'csv' if at % 2 else 'json'}").write_text('a,b\\n1,2\\n3,4\\n' if at % 2 else '{"a": 1}')
answer = None""")
    manifest = guest.describe("many")
    assert manifest["folders"][0]["extensions"] == {".csv": 1500, ".json": 1500}
    assert len(manifest["files"]) == 6


def test_a_large_file_is_sampled_and_says_so(guest: Guest) -> None:
    guest.evaluate("""
with open('large.csv', 'w') as file:
    file.write('id,name\\n')
    answer = file.writelines(f'{at},name\\n' for at in range(3_000_000))""")
    entry = one(guest.describe("large.csv"))
    assert (entry["rows"], entry["rows_exact"], entry["read_verified"]) == (3_000_000, False, True)
