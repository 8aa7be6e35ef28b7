"""Runs inside the `data` image: one table in every promised format, read back, printed as JSON.

Formats that nothing in the image writes (xls, ods) are spelled out here.
"""

# mypy: disable-error-code=import-not-found
import gzip
import json
import sqlite3
import struct
import zipfile
from pathlib import Path

import bs4
import charset_normalizer
import duckdb
import matplotlib
import matplotlib.figure
import pandas as pd
import PIL.Image
import polars as pl
import pypdf
import zstandard

FRAME = pd.DataFrame({"n": [1, 2], "s": ["a", "ü"]})
ODS = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content office:version="1.2" xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>
<table:table table:name="s">{}</table:table></office:spreadsheet></office:body></office:document-content>"""
MANIFEST = """<?xml version="1.0" encoding="UTF-8"?>
<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>"""


def ods_text(value: object) -> str:
    return f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'


def ods_number(value: int) -> str:
    return f'<table:table-cell office:value-type="float" office:value="{value}"/>'


def write_ods(path: str) -> None:
    rows = [[ods_text("n"), ods_text("s")]]
    rows += [[ods_number(n), ods_text(s)] for n, s in FRAME.itertuples(index=False)]
    body = "".join(f"<table:table-row>{''.join(row)}</table:table-row>" for row in rows)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", MANIFEST)
        archive.writestr("content.xml", ODS.format(body))


def write_xls(path: str) -> None:
    """BIFF2, the oldest and plainest: records of type, length, content."""

    def record(kind: int, content: bytes) -> bytes:
        return struct.pack("<HH", kind, len(content)) + content

    def label(row: int, column: int, text: str) -> bytes:
        encoded = text.encode("cp1252")
        return record(0x0004, struct.pack("<HH3sB", row, column, bytes(3), len(encoded)) + encoded)

    records = [record(0x0009, struct.pack("<HH", 7, 0x10)), record(0x0042, struct.pack("<H", 1252))]
    records += [label(0, 0, "n"), label(0, 1, "s")]
    for row, (n, s) in enumerate(FRAME.itertuples(index=False), start=1):
        records += [record(0x0002, struct.pack("<HH3sH", row, 0, bytes(3), n)), label(row, 1, s)]
    Path(path).write_bytes(b"".join([*records, record(0x000A, b"")]))


def write_all() -> None:
    csv = FRAME.to_csv(index=False).encode()
    Path("t.csv").write_bytes(csv)
    Path("t.csv.gz").write_bytes(gzip.compress(csv))
    Path("t.csv.zst").write_bytes(zstandard.compress(csv))
    with zipfile.ZipFile("t.csv.zip", "w") as archive:
        archive.writestr("t.csv", csv)
    FRAME.to_csv("t.tsv", sep="\t", index=False)
    FRAME.to_excel("t.xlsx", index=False)
    write_xls("t.xls")
    write_ods("t.ods")
    FRAME.to_parquet("t.parquet")
    FRAME.to_feather("t.feather")
    FRAME.to_json("t.json", orient="records")
    FRAME.to_json("t.jsonl", orient="records", lines=True)
    FRAME.to_xml("t.xml", index=False)
    FRAME.to_html("t.html", index=False)
    with sqlite3.connect("t.sqlite") as sqlite:
        FRAME.to_sql("t", sqlite, index=False)
    with duckdb.connect("t.duckdb") as database:
        database.sql("create table t as select * from FRAME")
    with matplotlib.rc_context({"pdf.use14corefonts": True}):
        figure = matplotlib.figure.Figure()
        figure.text(0, 0, "Hello pdf")
        figure.savefig("t.pdf")
    Path("t.txt").write_bytes(
        "Fünf Äpfel kosten zehn Euro, sagte die Bäuerin über den Zaun.".encode("cp1252")
    )
    PIL.Image.new("RGB", (2, 3)).save("t.png")


def read_tables() -> dict[str, pd.DataFrame]:
    with sqlite3.connect("t.sqlite") as sqlite, duckdb.connect("t.duckdb") as database:
        return {
            "csv": pl.read_csv("t.csv").to_pandas(),
            "tsv": pd.read_csv("t.tsv", sep="\t"),
            "xlsx": pd.read_excel("t.xlsx"),
            "xls": pd.read_excel("t.xls"),
            "ods": pd.read_excel("t.ods"),
            "parquet": pd.read_parquet("t.parquet"),
            "feather": pd.read_feather("t.feather"),
            "json": pd.read_json("t.json"),
            "jsonl": pd.read_json("t.jsonl", lines=True),
            "sqlite": pd.read_sql("select * from t", sqlite),
            "duckdb": database.sql("select * from t").df(),
            "xml": pd.read_xml("t.xml"),
            "html": pd.read_html("t.html", encoding="utf-8")[0],
            "csv.gz": pd.read_csv("t.csv.gz"),
            "csv.zip": pd.read_csv("t.csv.zip"),
            "csv.zst": pd.read_csv("t.csv.zst"),
        }


write_all()
found: dict[str, object] = {name: table.to_numpy().tolist() for name, table in read_tables().items()}
found["pdf"] = pypdf.PdfReader("t.pdf").pages[0].extract_text()
found["png"] = list(PIL.Image.open("t.png").size)
found["txt"] = str(charset_normalizer.from_path("t.txt").best())
found["soup"] = len(bs4.BeautifulSoup(Path("t.html").read_text("utf-8"), "lxml").find_all("td"))
print(json.dumps(found))
