"""Data files as tables of DuckDB, for arms that cannot read a file by themselves.

Only files of this project's suites and of the user's own copies of others are read here, on the host. Each table is there
twice: with the header and types that DuckDB finds, and as it lies in the file, every cell text, as `NAME_raw`.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import datetime
import decimal
import gzip
import io
import json
import math
import re
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.suites.base import Invalid, NotFound
from codeact.errors import UsageError

DELIMITERS = ",;\t|"
MAX_ROWS = 200
"""Rows of one result."""
MAX_SECONDS = 20.0
"""For one query."""
LOOK_LINES = 15
MAX_LINE = 300
TOLD_COLUMNS, TOLD_ROWS = 40, 3


@dataclass(frozen=True, slots=True)
class Source:
    """One table in a file. `cells` is what lies there, as text; `sheet` of a workbook."""

    file: str
    name: str
    kind: str
    cells: Sequence[Sequence[str | None]]
    sheet: str = ""
    encoding: str = ""
    delimiter: str = ""


class Tables:
    """The tables of some files, read once. One connection: calls from threads must come in turn."""

    def __init__(self, data: Mapping[str, Path]) -> None:
        self._db = _database()
        self._data = data
        self.sources: dict[str, Source] = {}
        for file, path in data.items():
            for source in read(file, path):
                own = dataclasses.replace(source, name=self._unused(source.name))
                self.sources[own.name] = own
                self._load(own, path)
        # what a query may reach from here on are these tables alone
        self._db.execute("SET enable_external_access = false")
        self._db.execute("SET lock_configuration = true")

    def _unused(self, name: str) -> str:
        taken = (f"{name}_{number}" for number in range(2, len(self.sources) + 3))
        return next(each for each in (name, *taken) if each not in self.sources)

    def _load(self, source: Source, path: Path) -> None:
        width = max((len(row) for row in source.cells), default=1)
        columns = ", ".join(f"c{number + 1} VARCHAR" for number in range(width))
        self._db.execute(f'CREATE TABLE "{source.name}_raw" (n BIGINT, {columns})')
        rows = [[number, *row, *[None] * (width - len(row))] for number, row in enumerate(source.cells, 1)]
        if rows:
            with tempfile.TemporaryDirectory() as folder:
                raw = Path(folder, "raw.json")
                names = ["n", *(f"c{number + 1}" for number in range(width))]
                raw.write_text(
                    "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows), "utf-8"
                )
                kinds = {"n": "BIGINT", **dict.fromkeys(names[1:], "VARCHAR")}
                written = ", ".join(f"{name}: '{kind}'" for name, kind in kinds.items())
                self._db.execute(
                    f"INSERT INTO \"{source.name}_raw\" SELECT * FROM read_json(?, format = 'newline_delimited', columns = {{{written}}})",
                    [str(raw)],
                )
        self._typed(source, path)

    def _typed(self, source: Source, path: Path) -> None:
        """With header and types where DuckDB finds some; as it lies there otherwise."""
        with tempfile.TemporaryDirectory() as folder:
            for read_as, text in _readings(source, path):
                copy = Path(folder, "copy")
                copy.write_bytes(text)
                try:
                    self._db.execute(f'CREATE TABLE "{source.name}" AS SELECT * FROM {read_as}', [str(copy)])
                    return
                except _error():
                    continue
        self._db.execute(f'CREATE TABLE "{source.name}" AS SELECT * FROM "{source.name}_raw"')

    def listed(self) -> list[dict[str, Any]]:
        return [
            {
                "file": file,
                "bytes": path.stat().st_size,
                "tables": [name for name, source in self.sources.items() if source.file == file],
            }
            for file, path in self._data.items()
        ]

    def sniffed(self, file: str) -> dict[str, Any]:
        if file not in self._data:
            raise NotFound(f"there is no file {file!r}; there are {', '.join(self._data) or 'none'}")
        own = [source for source in self.sources.values() if source.file == file]
        return {
            "file": file,
            "kind": own[0].kind,
            "encoding": own[0].encoding,
            "delimiter": own[0].delimiter,
            "tables": {
                source.name: {"sheet": source.sheet, "rows_in_file": len(source.cells)} for source in own
            },
            "first_rows": [_shown(row) for row in own[0].cells[:LOOK_LINES]],
        }

    def rows(self, table: str, offset: int, limit: int) -> list[list[Any]]:
        source = self.sources.get(table.removesuffix("_raw"))
        if source is None:
            raise NotFound(f"there is no table {table!r}; there are {', '.join(self.sources) or 'none'}")
        if offset < 0 or not 0 < limit <= MAX_ROWS:
            raise Invalid(f"offset is not negative, and limit is 1 to {MAX_ROWS}")
        return [list(row) for row in source.cells[offset : offset + limit]]

    def described(self, table: str) -> list[dict[str, Any]]:
        found = self.query(f'SUMMARIZE "{table.replace(chr(34), "")}"')
        kept = (
            "column_name",
            "column_type",
            "min",
            "max",
            "approx_unique",
            "avg",
            "count",
            "null_percentage",
        )
        places = [found["columns"].index(name) for name in kept if name in found["columns"]]
        return [{found["columns"][place]: row[place] for place in places} for row in found["rows"]]

    def told(self) -> str:
        """What there is, for who cannot look first: each table with its columns and first rows."""
        return "\n".join(line for name, source in self.sources.items() for line in self._told(name, source))

    def _told(self, name: str, source: Source) -> Iterator[str]:
        sheet = f", sheet {source.sheet!r}" if source.sheet else ""
        yield f"{source.file} — {source.kind}{sheet}, table {name}"
        columns = self.described(name)
        yield f"  columns (all {len(columns)}): {', '.join(map(_column, columns[:TOLD_COLUMNS]))}"
        for row in self.query(f'SELECT * FROM "{name}" LIMIT {TOLD_ROWS}')["rows"]:
            shown = ["" if cell is None else str(cell) for cell in row[:TOLD_COLUMNS]]
            yield f"  row: {' | '.join(shown)}"[:MAX_LINE]

    def query(self, text: str) -> dict[str, Any]:
        late = threading.Timer(MAX_SECONDS, self._db.interrupt)
        late.start()
        try:
            done = self._db.execute(text)
            rows = done.fetchmany(MAX_ROWS + 1) if done.description else []
        except _error() as error:
            raise Invalid(str(error)) from None
        finally:
            late.cancel()
        made: dict[str, Any] = {
            "columns": [column[0] for column in done.description or ()],
            "rows": [[_plain(value) for value in row] for row in rows[:MAX_ROWS]],
        }
        if len(rows) > MAX_ROWS:
            made["note"] = f"only the first {MAX_ROWS} rows"
        return made


def _column(column: Mapping[str, Any]) -> str:
    missing = float(column["null_percentage"] or 0)
    about = [
        str(column["column_type"]),
        f"{column['min']}..{column['max']}"[:MAX_LINE],
        f"about {column['approx_unique']} distinct",
        *([f"{missing:g} % missing"] if missing else []),
    ]
    return f"{column['column_name']} ({', '.join(about)})"


# -- files -------------------------------------------------------------------------------------------------------------


def read(file: str, path: Path) -> Iterator[Source]:
    """The tables in a file, by what it is and not by its name. Raises UsageError for one that cannot be read."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    name = _identifier(Path(file).name.split(".")[0])
    if raw[:4] == b"PK\x03\x04":
        yield from _workbook(file, name, raw)
    elif raw[:16] == b"SQLite format 3\x00":
        yield from _database_file(file, path)
    elif raw[:4] == b"PAR1":
        yield Source(file, name, "parquet", _parquet(path))
    else:
        text, encoding = _decoded(raw)
        yield _text(file, name, text, encoding)


def _workbook(file: str, name: str, raw: bytes) -> Iterator[Source]:
    try:
        from python_calamine import CalamineWorkbook
    except ImportError as error:
        raise UsageError("reading workbooks needs python-calamine: run make setup") from error
    book = CalamineWorkbook.from_filelike(io.BytesIO(raw))
    for number, sheet in enumerate(book.sheet_names):
        cells = [
            [None if cell == "" else str(cell) for cell in row]
            for row in book.get_sheet_by_name(sheet).to_python(skip_empty_area=False)
        ]
        yield Source(file, f"{name}_{number + 1}", "workbook", cells, sheet=sheet)


def _database_file(file: str, path: Path) -> Iterator[Source]:
    """The tables of an SQLite database, by their own names."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
        asked = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (table,) in database.execute(asked).fetchall():
            done = database.execute('SELECT * FROM "{}"'.format(table.replace('"', '""')))
            head: list[str | None] = [column[0] for column in done.description]
            rows = [[None if cell is None else str(cell) for cell in row] for row in done]
            yield Source(file, _identifier(table), "sqlite", [head, *rows])


def _parquet(path: Path) -> list[list[str | None]]:
    done = _database().execute("SELECT * FROM read_parquet(?)", [str(path)])
    head: list[str | None] = [column[0] for column in done.description]
    return [head, *([None if cell is None else str(cell) for cell in row] for row in done.fetchall())]


def _decoded(raw: bytes) -> tuple[str, str]:
    try:
        return raw.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace"), "cp1252"


def _text(file: str, name: str, text: str, encoding: str) -> Source:
    lines = text.splitlines()
    if text.lstrip()[:1] in ("{", "["):
        return Source(file, name, "json", [[line] for line in lines], encoding=encoding)
    delimiter = _delimiter(lines)
    if not delimiter:
        return Source(file, name, "lines", [[line] for line in lines], encoding=encoding)
    cells = [
        [cell if cell != "" else None for cell in row]
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    ]
    return Source(file, name, "delimited", cells, encoding=encoding, delimiter=delimiter)


def _delimiter(lines: Sequence[str]) -> str:
    """The sign that most lines have, and have most of; empty where few have any."""
    looked = [line for line in lines[:200] if line.strip()]
    scores = {
        sign: sorted(line.count(sign) for line in looked)[len(looked) // 2] if looked else 0
        for sign in DELIMITERS
    }
    best = max(scores, key=lambda sign: scores[sign])
    return best if scores[best] else ""


def _readings(source: Source, path: Path) -> Iterator[tuple[str, bytes]]:
    """How DuckDB might read it: a table function of one file, and the file's bytes."""
    match source.kind:
        case "parquet":
            yield "read_parquet(?)", path.read_bytes()
        case "json":
            text = "\n".join(str(row[0]) for row in source.cells).encode()
            yield "read_json_auto(?)", text
            yield "read_json_auto(?, format = 'newline_delimited', ignore_errors = true)", text
        case "delimited" | "workbook" | "sqlite":
            buffer = io.StringIO()
            csv.writer(buffer).writerows(
                [cell if cell is not None else "" for cell in row] for row in source.cells
            )
            text = buffer.getvalue().encode()
            yield "read_csv(?, delim = ',', quote = '\"', header = true, sample_size = -1)", text
            yield "read_csv(?, delim = ',', quote = '\"', sample_size = -1, null_padding = true)", text


# -- DuckDB ------------------------------------------------------------------------------------------------------------


def _database() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("tables for function calling need duckdb: run make setup") from error
    return duckdb.connect(
        ":memory:", config={"threads": 1, "memory_limit": "1GB", "autoinstall_known_extensions": "false"}
    )


def _error() -> type[Exception]:
    import duckdb

    kind: type[Exception] = duckdb.Error
    return kind


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_").lower()
    return name if name and not name[0].isdigit() else f"t_{name}"


def _shown(row: Sequence[str | None]) -> list[str | None]:
    return [cell if cell is None or len(cell) <= MAX_LINE else f"{cell[:MAX_LINE]}…" for cell in row]


def _plain(value: Any) -> Any:
    """A value of a query as JSON."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case decimal.Decimal():
            return float(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
    return str(value)
