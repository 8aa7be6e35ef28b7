"""The manifest of real, awkward files, made in the sandbox as for a run: right about them, or saying what it is
unsure of; and its reading lines work there."""

from collections.abc import Iterator
from typing import Any

import pytest

from codeact.manifest import render
from tests.integration.manifest_guest import MESSY, Guest, guest_with, one

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    files = MESSY / "files"
    inputs = {path.relative_to(files).as_posix(): path for path in files.rglob("*") if path.is_file()}
    with guest_with(inputs) as running:
        yield running


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
            {"separator": "\t", "header_line": 1, "rows": 370, "footer_rows": 9},
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
    guest: Guest, name: str, expected: dict[str, Any], words: list[str]
) -> None:
    manifest = guest.inputs[f"data/{name}"]
    entry = one(manifest)
    assert {key: entry.get(key) for key in expected} == expected
    assert "problem" not in entry
    assert entry["read_verified"] is True
    text = render(manifest, budget_tokens=6000)
    assert [word for word in words if word not in text] == []


def test_sheets_are_named_exactly(guest: Guest) -> None:
    sheets = {
        name: [sheet["name"] for sheet in one(guest.inputs[f"data/{name}"])["sheets"]]
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
def test_the_reading_line_leads_to_the_known_answer(guest: Guest, name: str, code: str, answer: Any) -> None:
    line = one(guest.inputs[f"data/{name}"])["read"]
    assert guest.evaluate(f"import pandas as pd\n{line}\n{code}") == answer
