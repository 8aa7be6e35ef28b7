"""The manifest of real, awkward files: right about them, or saying what it is unsure of; and its reading lines work.

The guest code needs the packages of the ``data`` image. Until a sandbox runs it, `CODEACT_GUEST_PYTHON` names an
interpreter that has them.
"""

import gzip
import io
import json
import os
import shutil
import sqlite3
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import codeact
from codeact.manifest import render

MESSY = Path(__file__).parents[1] / "data" / "messy" / "files"
GUEST = os.environ.get("CODEACT_GUEST_PYTHON", "")
Describe = Callable[..., dict[str, Any]]
Evaluate = Callable[[str], Any]

pytestmark = pytest.mark.skipif(
    not GUEST, reason="CODEACT_GUEST_PYTHON names no interpreter with the guest packages"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The working folder, with the messy files under ``data/``."""
    shutil.copytree(MESSY, tmp_path / "data")
    return tmp_path


@pytest.fixture
def describe(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Describe:
    """Runs the guest code on paths relative to the workspace; the package has another name there, as in a sandbox."""
    library = tmp_path_factory.mktemp("library")
    shutil.copytree(Path(codeact.__file__).parent / "inside", library / "guest_manifest")

    def call(*paths: str, seconds: float = 30) -> dict[str, Any]:
        start = f"import sys; sys.path.insert(0, {str(library)!r}); from guest_manifest.manifest import main; main()"
        command = [GUEST, "-I", "-c", start, "--json", "--seconds", str(seconds), "--", *paths]
        done = subprocess.run(command, cwd=workspace, capture_output=True, check=True, timeout=90)
        assert done.stderr == b""
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return call


@pytest.fixture
def evaluate(workspace: Path) -> Evaluate:
    """Runs code that assigns ``answer`` with the guest interpreter."""

    def call(code: str) -> Any:
        script = code + "\nimport json; print(json.dumps(answer, default=str))"
        done = subprocess.run(
            [GUEST, "-"], input=script, cwd=workspace, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


def one(manifest: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = manifest["files"][0]
    return entry


ITALY = "Elenco comuni italiani (ISTAT) – 2020.csv"
FOREST = "données brutes/mutations forêt 2010→2021 🌲.csv"


@pytest.mark.parametrize(
    ("name", "expected", "words"),
    [
        (
            "banklist.csv",
            {"encoding": "cp1252", "separator": ",", "header_line": 1, "rows": 568},
            ["no-break spaces", "%d-%b-%y"],
        ),
        (
            ITALY,
            {"encoding": "cp1252", "separator": ";", "header_line": 1, "rows": 7904},
            ["'NA'", "line breaks", "leading zeros"],
        ),
        (
            "begrotingsanalyse-2011.csv",
            {"separator": ",", "header_rows": [3, 4, 5, 6], "rows": 36},
            ["unsure", "thousands commas"],
        ),
        (
            "spanish_chars.csv",
            {"encoding": "cp1252", "header_line": 1, "rows": 114, "footer_rows": 2},
            ["footer", "thousands"],
        ),
        (
            "weird_head_padding.csv",
            {"encoding": "utf-8", "separator": ";", "header_line": 12, "rows": 60},
            ["footer", "'.'", "skiprows=11"],
        ),
        (
            FOREST,
            {"encoding": "utf-8", "separator": ",", "header_line": 2, "rows": 2046},
            ["skiprows=1", "leading zeros", "duplicate"],
        ),
        (
            "who.csv.gz",
            {"container": ["gzip"], "separator": ",", "header_line": 1, "rows": 7240},
            ["'NA'", "keep_default_na=False"],
        ),
        ("bug_10283.csv", {"separator": ",", "rows": 293}, ["several record types"]),
        (
            "milk.csv",
            {"separator": "\t", "header_line": 1, "rows": 371, "footer_rows": 9},
            ["separator is a tab", "footer"],
        ),
        (
            "excel_pasting.csv",
            {"separator": ",", "header_line": 4, "rows": 14, "footer_rows": 3},
            ["skiprows=3", "total"],
        ),
        ("stops.csv", {"encoding": "utf-8", "rows": 9}, ["line 9, 10"]),
        ("timestamp_timezone.csv", {"separator": ",", "rows": 8}, ["mixed time zones", "utc=True"]),
        ("duplicate-headers.csv", {"header_line": 1, "rows": 2}, ["3 columns are called 'id'", "'id.2'"]),
        ("donut-records.json", {"kind": "json", "rows": 3}, ["nested", "'None'", "topping: list of"]),
        (
            "unterminated_quotes.ndjson",
            {"kind": "jsonl", "rows": 4, "bad_lines": 1},
            ["line 3 is not valid JSON: unterminated string"],
        ),
        ("silly-names.parquet", {"kind": "parquet", "rows": 3}, ["önë", "🦆", "''"]),
        ("pivots.xlsx", {"kind": "xlsx"}, ["openpyxl.load_workbook() fails", "calamine", "pivot"]),
        (
            "חישוב_נקודות_זיכוי.xlsx",
            {"kind": "xlsx"},
            ["'מס הכנסה '", "empty sheets", "formulas", "merged", "form or a layout"],
        ),
        (
            "Colorado-Municipalities-small-xlsx.gz",
            {"kind": "xlsx", "container": ["gzip"]},
            ["xlsx inside gzip", "leading zeros"],
        ),
    ],
)
def test_a_messy_file_is_described_rightly(
    describe: Describe, name: str, expected: dict[str, Any], words: list[str]
) -> None:
    manifest = describe(f"data/{name}")
    entry = one(manifest)
    assert {key: entry.get(key) for key in expected} == expected
    assert "problem" not in entry
    assert entry["read_verified"] is True
    text = render(manifest, budget_tokens=6000)
    assert [word for word in words if word not in text] == []


def test_sheets_are_named_exactly(describe: Describe) -> None:
    sheets = {
        name: [sheet["name"] for sheet in one(describe(f"data/{name}"))["sheets"]]
        for name in ("pivots.xlsx", "חישוב_נקודות_זיכוי.xlsx")
    }
    assert sheets["pivots.xlsx"] == [
        "PivotSheet1",
        "PivotSheet2",
        "PivotSheet3",
        "PivotSheet4",
        "DataSheet",
        "DataSheet2",
    ]
    assert sheets["חישוב_נקודות_זיכוי.xlsx"] == ["חישוב", "מס הכנסה ", "גיליון3"]


@pytest.mark.parametrize(
    ("name", "code", "answer"),
    [
        ("banklist.csv", "d = pd.to_datetime(df['Closing Date'], format='%d-%b-%y'); answer = int(((df.State == 'GA') & (d.dt.year == 2010)).sum())", 21),
        (ITALY, "answer = int((df['Sigla automobilistica'] == 'NA').sum())", 92),
        ("spanish_chars.csv", "answer = round(df[df.GF_ID.notna()]['Gasto total 2011'].sum(), 2)", 2622527.9),
        ("weird_head_padding.csv", "answer = int(df[df.iloc[:, 0].str.strip() == 'Gefäßchirurgie']['2010'].iloc[0])", 733),
        ("who.csv.gz", "answer = int((df.iso2 == 'NA').sum())", 34),
        ("excel_pasting.csv", "d = (df['2007'] - df['2000'])[df.Year != 'Total']; answer = int(d.min())", -4042),
        ("stops.csv", "answer = len(df)", 9),
        ("duplicate-headers.csv", "answer = list(df['id.2'])", ["001101", "001102"]),
        ("unterminated_quotes.ndjson", "answer = len(data)", 4),
        ("silly-names.parquet", "answer = int(df[df['🦆']]['önë'].sum())", 4),
        ("pivots.xlsx", "answer = float(df[df.Category == 'blue'].Value.sum())", 75.0),
        ("donut-records.json", "answer = len({t['type'] for d in data for t in d['topping']})", 7),
        (FOREST, "u = df.drop_duplicates(); answer = round(u[u.id_admin.str.startswith('08') & (u.ocs_cod_10 == '1 - Emprises urbaines') & (u.ocs_cod_21 == '31 - Forêts')].ocs_ha_chg.sum(), 2)", 16.92),
        ("bug_10283.csv", "h = next(r for r in rows if r[0] == 'I'); at = h.index('TOTALOBJECTIVE'); answer = min(float(r[at]) for r in rows if r[:3] == ['D', 'DISPATCH', 'CASESOLUTION'])", -55407449.354),
    ],
)  # fmt: skip
def test_the_reading_line_leads_to_the_known_answer(
    describe: Describe, evaluate: Evaluate, name: str, code: str, answer: Any
) -> None:
    line = one(describe(f"data/{name}"))["read"]
    assert evaluate(f"import pandas as pd\n{line}\n{code}") == answer


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
            gzip.compress(b"id;x\n1;2\n3;4\n"),
            {"container": ["gzip"], "separator": ";", "rows": 2},
        ),
        ("a.csv", gzip.compress(b"id,x\n1,2\n3,4\n"), {"container": ["gzip"], "rows": 2}),
        ("a.zip", zipped({"b.csv": b"id,x\n1,2\n3,4\n"}), {"kind": "zip", "members_count": 1}),
        ("a.csv", b'[{"a": 1}, {"a": 2}]', {"kind": "json", "rows": 2}),
        ("a.json", b'{"a": 1}\n{"a": 2}\n', {"kind": "jsonl", "rows": 2}),
        (
            "a.xml",
            b'<?xml version="1.0"?><c><b i="1"/><b i="2"/></c>',
            {"kind": "xml", "root": "c", "repeated": "b", "rows": 2},
        ),
        ("a.html", b"<html><table><tr><th>a</th></tr><tr><td>1</td></tr></table></html>", {"kind": "html"}),
        ("a.log", b"2021-01-01 10:00:00,123 INFO started, now\n" * 5, {"kind": "text", "lines": 5}),
    ],
)
def test_other_kinds(
    describe: Describe, workspace: Path, name: str, content: bytes, expected: dict[str, Any]
) -> None:
    (workspace / "data" / name).write_bytes(content)
    entry = one(describe(f"data/{name}"))
    assert {key: entry.get(key) for key in expected} == expected
    assert entry["read_verified"] is True


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "empty"),
        ("blank.csv", b"\n\n", "blank lines only"),
        ("broken.xlsx", b"PK\x03\x04" + b"x" * 100, "broken"),
        ("cut.csv.gz", gzip.compress(b"a,b\n1,2\n" * 5000)[:-30], "cut-off gzip"),
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
    describe: Describe, workspace: Path, name: str, content: bytes, words: str
) -> None:
    (workspace / "data" / name).write_bytes(content)
    broken, good = describe(f"data/{name}", "data/duplicate-headers.csv")["files"]
    problems = [broken.get("problem", "")] + [
        member.get("problem", "") for member in broken.get("described", [])
    ]
    assert any(words in problem for problem in problems)
    assert good["rows"] == 2


def test_what_is_no_file_is_said(describe: Describe, workspace: Path) -> None:
    os.mkfifo(workspace / "data" / "fifo")
    missing, pipe = describe("data/nothing.csv", "data/fifo")["files"]
    assert (missing["problem"], pipe["problem"]) == ("no such file", "not a regular file")


def test_a_database_is_described_by_its_tables(describe: Describe, workspace: Path) -> None:
    connection = sqlite3.connect(workspace / "data" / "a.sqlite")
    connection.execute('CREATE TABLE "odd ""name" (a INTEGER, b TEXT)')
    connection.executemany('INSERT INTO "odd ""name" VALUES (?, ?)', [(1, "x"), (2, "y")])
    connection.commit()
    connection.close()
    table = one(describe("data/a.sqlite"))["tables"][0]
    assert (table["name"], table["rows"], table["columns"][1]) == (
        'odd "name',
        2,
        {"name": "b", "type": "TEXT"},
    )


def test_a_folder_of_very_many_files_is_summed_up(describe: Describe, workspace: Path) -> None:
    for at in range(3000):
        (workspace / "many").mkdir(exist_ok=True)
        (workspace / "many" / f"f{at}.{'csv' if at % 2 else 'json'}").write_bytes(
            b"a,b\n1,2\n3,4\n" if at % 2 else b'{"a": 1}'
        )
    manifest = describe("many")
    assert manifest["folders"][0]["extensions"] == {".csv": 1500, ".json": 1500}
    assert len(manifest["files"]) == 6


def test_a_large_file_is_sampled_and_says_so(describe: Describe, workspace: Path) -> None:
    (workspace / "data" / "large.csv").write_bytes(
        b"id,name\n" + b"".join(b"%d,name\n" % at for at in range(3_000_000))
    )
    entry = one(describe("data/large.csv"))
    assert (entry["rows"], entry["rows_exact"], entry["read_verified"]) == (3_000_000, False, True)


def test_a_strange_name_is_quoted_and_readable(
    describe: Describe, evaluate: Evaluate, workspace: Path
) -> None:
    name = "a \u202e\nשם 🌲 `x`.csv"
    (workspace / "data" / name).write_bytes(b"id,v\n1,2\n3,4\n")
    manifest = describe(f"data/{name}")
    text = render(manifest)
    line = next(line for line in text.split("\n") if line.startswith("  read: ")).removeprefix("  read: ")
    assert evaluate(f"{line}\nanswer = len(df)") == 2
    assert "\u202e" not in text
