"""Describes text tables: csv, tsv and their like, whole or (when large) by samples."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from . import frames, options, remarks, shape
from .charset import Charset
from .columns import cut, marks_apart, pandas_names, plural
from .columns import describe as describe_column
from .dialect import ALONE, BLANKS, SPACED, Dialect, Record, numbered, stray_quotes
from .packages import Missing, has
from .reading import Line, call, execute, reason
from .remarks import Table, blank, numbers, writable
from .shape import Shape, filled
from .sources import Source

WHOLE = 24 << 20
_HEAVY = 100 << 20
_CELLS = 1_500_000
_PLAIN_NAMES = {"\t": "tab", SPACED: "two or more spaces", BLANKS: "spaces", "": "none"}


@dataclass(frozen=True)
class Text:
    """Decoded text. ``whole`` is false for a sample of a large file of about ``rows`` lines."""

    content: str
    charset: Charset
    whole: bool
    lines: int


def describe(entry: dict[str, Any], source: Source, text: Text, dialect: Dialect, rows: int) -> None:
    """Fills the entry of a text table: shape, columns, first rows, notes, and a reading line that was tried."""
    pairs = list(numbered(text.content, dialect))
    lines, records = [line for line, _ in pairs], [record for _, record in pairs]
    entry["separator"] = dialect.separator
    entry["separator_name"] = _PLAIN_NAMES.get(dialect.separator, dialect.separator)
    entry["separator_sure"] = dialect.sure
    entry["quote"] = dialect.quote if dialect.quote and dialect.quote in text.content else None
    if not dialect.sure:
        entry["notes"].append("unsure of the separator: look at the first lines")
    stray = stray_quotes(text.content, dialect)
    if stray:
        entry["notes"].append(
            f"broken quoting: a quote stands inside a cell, not doubled, in line {numbers(stray)}: check those cells"
        )
    if dialect.quote == "" and '"' in text.content and not dialect.pattern:
        entry["notes"].append(
            "broken quoting: quotes do not enclose cells (one may never be closed): quoting=3 (csv.QUOTE_NONE) reads them as text"
        )
    if several_tables(records):
        _describe_several(entry, source, text, dialect, records)
        return
    table = build(records, lines)
    fill(entry, table, rows, whole=text.whole, lines=text.lines)
    offer(entry, source, text, dialect, table)


def build(records: list[Record], lines: list[int] | None = None) -> Table:
    """A table from records of any source (text, sheet)."""
    found = shape.find(records)
    header = _merged(records, found)
    body = [record for record in records[found.start : found.end] if not blank(record)]
    if rows_are_named(header, body):
        header = ["row_name" if "row" in header else "row", *header]
    width = max(found.width, max((len(record) for record in body), default=0)) if not header else found.width
    names = pandas_names(header) if header else [str(at) for at in range(width)]
    widest = max((len(record) for record in body), default=0)
    names += [f"extra_{at}" for at in range(1, widest - len(names) + 1)] if header else []
    counts: list[Counter[str]] = [Counter() for _ in names]
    counted = body[: max(200, _CELLS // max(1, len(names)))]
    for record in counted:
        for at, cell in enumerate(record[: len(names)]):
            counts[at][cell] += 1
    for counter in counts:
        counter[""] += len(counted) - counter.total()
    columns = marks_apart(
        [describe_column(name, counter) for name, counter in zip(names, counts, strict=True)]
    )
    return Table(records, lines or list(range(1, len(records) + 1)), found, names, columns, len(body))


def rows_are_named(header: list[str], body: list[Record]) -> bool:
    """Whether the rows begin with a cell that the header has no name for, as R writes tables."""
    return (
        bool(header and body)
        and all(len(record) == len(header) + 1 for record in body)
        and sum(bool(record[-1].strip()) for record in body) * 2
        > len(body)  # else each row ends in a separator
    )


def _merged(records: list[Record], found: Shape) -> list[str]:
    """One name a column. Of stacked header rows, those that tell columns apart are joined, groups carried to the right."""
    if not found.header:
        return []
    if len(found.header) == 1:
        return records[found.header[0]]
    width = max(found.width, *(len(records[at]) for at in found.header))
    kept: list[list[str]] = []
    for order, at in enumerate(found.header):
        cells = [" ".join(cell.split()) for cell in records[at]] + [""] * (width - len(records[at]))
        distinct = {cell for cell in cells if cell}
        if len(distinct) < 2 and order < len(found.header) - 1:
            continue
        if order < len(found.header) - 1 and sum(map(bool, cells)) < sum(
            map(bool, records[found.header[order + 1]])
        ):
            cells = _carried(cells, records[found.header[order + 1]])
        kept.append(cells)
    return [
        " ".join(dict.fromkeys(cells[at] for cells in kept if cells[at])) or f"column_{at + 1}"
        for at in range(width)
    ]


def _carried(cells: list[str], below: Record) -> list[str]:
    result, last = [], ""
    for at, cell in enumerate(cells):
        last = cell or last
        result.append(last if cell or (at < len(below) and below[at].strip()) else "")
    return result


def fill(entry: dict[str, Any], table: Table, rows: int, *, whole: bool = True, lines: int = 0) -> None:
    """What a table says of itself, apart from how to read it."""
    found, notes = table.shape, entry["notes"]
    entry["rows"] = table.rows
    if not whole:
        entry["rows"] = max(0, lines - (found.header[-1] + 1 if found.header else 0))
        entry["rows_exact"] = False
        notes.append("large: described from samples; rows counted as lines")
    if (entry.get("size") or 0) > _HEAVY:
        notes.append(
            "reading all of it takes much memory: use chunksize=..., usecols=..., or duckdb on the file"
        )
    entry["header_row"] = found.header[-1] if found.header else None
    entry["header_line"] = table.lines[found.header[-1]] if found.header else None
    entry["header_sure"] = found.sure
    entry["skipped_before"] = found.header[0] if found.header else found.start
    remarks.on_header(entry, table)
    entry["columns"] = [column.json() for column in table.columns]
    body = table.body
    entry["first_rows"] = [[cut(cell, 60) for cell in record] for record in body[:rows]]
    footer = [record for record in table.records[found.end :] if filled(record)]
    entry["footer_rows"] = len(table.records) - found.end if whole else 0
    if whole and (footer or entry["footer_rows"]):
        said = f", like {cut(' '.join(cell for cell in footer[0] if cell.strip()), 50)!r}" if footer else ""
        notes.append(
            f"footer: the last {plural(entry['footer_rows'], 'line')}, from line {table.lines[found.end]} on, no data{said}"
        )
    remarks.on_body(notes, table, body, whole)
    remarks.on_columns(notes, table)


def _place(table: Table) -> dict[str, Any]:
    """Which rows are the header and the data."""
    found = table.shape
    if not found.header:
        return {"header": None, **({"skiprows": found.start} if found.start else {})}
    unnamed = len(table.names) > len(table.records[found.header[-1]])
    if unnamed or (len(found.header) > 1 and writable(table.names)):
        return {"header": None, "skiprows": found.start, "names": table.names}
    return {"skiprows": found.header[-1]} if found.header[-1] else {}


def offer(entry: dict[str, Any], source: Source, text: Text, dialect: Dialect, table: Table) -> None:
    """Writes the reading line, tries it, and says what came of it."""
    if not has("pandas"):
        entry["notes"].append("pandas is not in this image: read with csv")
        offer_lines(entry, source, text, dialect)
        return
    if not text.whole:
        table = _without_dates(table)  # a date that is none may come later
    chosen: dict[str, Any] = {}
    if dialect.separator != ",":
        chosen["sep"] = dialect.separator or ALONE
    if dialect.pattern:
        chosen["engine"] = "python"
    if not dialect.quote and not dialect.pattern and '"' in text.content:
        chosen["quoting"] = 3
    elif dialect.quote == "'":
        chosen["quotechar"] = "'"
    if dialect.escape:
        chosen["escapechar"] = dialect.escape
    if dialect.skip:
        chosen["skipinitialspace"] = True
    if text.charset.name not in ("utf-8", "ascii"):
        chosen["encoding"] = text.charset.name
    if any("encoding_errors" in note for note in text.charset.notes):
        chosen["encoding_errors"] = "replace"
    chosen |= _place(table)
    footer = text.whole and table.shape.end < len(table.records)
    if footer:
        chosen["nrows"] = table.rows
    chosen |= options.written(options.of(table))
    target, modules = _target(source, chosen)
    code = call("pd.read_csv", target, **chosen)
    stripped = [name.strip() for name in table.names]
    alone = len(set(stripped)) == len(stripped)
    if stripped != table.names and alone and "names" not in chosen and table.shape.header:
        code += ".rename(columns=str.strip)"
    if any(record and not filled(record) for record in table.body):
        code += ".dropna(how='all')"
    line = Line(f"df = {code}", (*modules, "pandas"))
    wanted = sum(bool(filled(record)) for record in table.body) if "dropna" in code else table.rows
    problem = _tried(line, table, wanted, text.whole, entry)
    if problem is None:
        entry["read"], entry["read_verified"] = line.text(), True
        options.note_handled(entry, line.code)
        return
    if "parse_dates" in chosen:  # dates that look like dates and are none: as text, then
        offer(entry, source, text, dialect, _without_dates(table))
        return
    entry["notes"].append(f"pandas does not read it as it stands ({problem}): take the lines apart with csv")
    offer_lines(entry, source, text, dialect)


def _without_dates(table: Table) -> Table:
    return replace(table, columns=[replace(column, date_form="") for column in table.columns])


def _target(source: Source, chosen: dict[str, Any]) -> tuple[str, list[str]]:
    if len(source.layers) > 1 or any(layer.startswith("zip") for layer in source.layers):
        return source.expression()
    if source.layers:
        kind = source.layers[0]
        if not source.path.endswith({"gzip": ".gz", "zst": ".zst", "bz2": ".bz2", "xz": ".xz"}[kind]):
            chosen["compression"] = {"zst": "zstd"}.get(kind, kind)
    elif source.path.endswith((".gz", ".zst", ".zip", ".bz2", ".xz")):
        chosen["compression"] = None
    return repr(source.path), []


def _tried(line: Line, table: Table, rows: int, whole: bool, entry: dict[str, Any]) -> str | None:
    """None when the line reads the rows and columns that were seen; else what went wrong.

    Columns of ``entry`` are then told as the table that was read has them.
    """
    tried = (
        line
        if whole
        else Line(
            re.sub(
                r"\)(\.rename\(columns=str\.strip\))?(\.dropna\(how='all'\))?$", r", nrows=1000)\1", line.code
            ),
            line.imports,
        )
    )
    try:
        frame = execute(tried)
    except Missing as missing:
        return str(missing)
    except Exception as error:  # noqa: BLE001 - whatever the line raises is the finding
        return reason(error)
    if whole and len(frame) != rows:
        return f"it makes {len(frame)} rows of {rows}"
    if frame.shape[1] != len(table.names):
        return f"it makes {frame.shape[1]} columns of {len(table.names)}"
    for at, column in enumerate(table.columns):
        values, name = frame.iloc[:, at], str(frame.columns[at])
        if (
            column.type in ("integer", "decimal")
            and values.dtype.kind == "O"
            and whole
            and values.notna().any()
        ):
            return f"numbers of {name!r} stay text"
        if (column.as_text or column.type == "text") and values.dtype.kind in "iuf" and values.notna().any():
            return f"text of {name!r} becomes numbers"
        if column.date_form and values.dtype.kind != "M":
            return f"dates of {name!r} stay text"
    frames.as_read(entry["columns"], frame, whole=whole)
    if whole:
        entry |= {"rows": len(frame), "first_rows": frames.first_rows(frame, len(entry["first_rows"]))}
    return None


def offer_lines(entry: dict[str, Any], source: Source, text: Text, dialect: Dialect) -> None:
    """The reader without pandas: all records as lists of text."""
    entry["read"] = lines_reader(source, text.charset, dialect).text()
    try:
        found = execute(lines_reader(source, text.charset, dialect), "rows")
        entry["read_verified"] = len(found) > 0
    except Exception as error:  # noqa: BLE001 - whatever the line raises is the finding
        entry["read_verified"] = False
        entry["notes"].append(f"the reading line failed: {reason(error)}")


def lines_reader(source: Source, charset: Charset, dialect: Dialect) -> Line:
    opened, modules = opened_text(source, charset, newline="")
    if dialect.pattern:
        return Line(
            f"rows = [re.split({dialect.separator!r}, line.strip()) for line in {opened}]", (*modules, "re")
        )
    mark = dialect.separator or ALONE
    chosen: dict[str, Any] = {} if mark == "," else {"delimiter": mark}
    if not dialect.quote:
        chosen["quoting"] = 3
    if dialect.skip:
        chosen["skipinitialspace"] = True
    return Line(f"rows = list({call('csv.reader', opened, **chosen)})", (*modules, "csv"))


def opened_text(source: Source, charset: Charset, newline: str | None = None) -> tuple[str, list[str]]:
    """Source of an open text stream, and the modules it needs."""
    chosen: dict[str, Any] = {"encoding": charset.name}
    if any("encoding_errors" in note for note in charset.notes):
        chosen["errors"] = "replace"
    if newline is not None:
        chosen["newline"] = newline
    if source.plain:
        return call("open", repr(source.path), **chosen), []
    expression, modules = source.expression()
    return call("io.TextIOWrapper", expression, **chosen), [*modules, "io"]


def several_tables(records: list[Record]) -> bool:
    """Record types stacked in one file: the first cell names a type, and types differ in width."""
    rows = [record for record in records if len(record) > 1]
    widths: dict[str, Counter[int]] = {}
    for record in rows:
        widths.setdefault(record[0].strip(), Counter())[len(record)] += 1
    if not 2 <= len(widths) <= 12 or len(rows) < 5 or len(widths) * 2 > len(rows):
        return False
    if not all(re.fullmatch(r"[A-Za-z][\w./-]{0,11}|\d{1,3}", name) for name in widths):
        return False
    usual = {counter.most_common(1)[0][0] for counter in widths.values()}
    return len(usual) > 1 and min(usual) > 1 and max(usual) - min(usual) > 1


def _describe_several(
    entry: dict[str, Any], source: Source, text: Text, dialect: Dialect, records: list[Record]
) -> None:
    kinds: dict[str, list[Record]] = {}
    for record in records:
        if len(record) > 1:
            kinds.setdefault(record[0].strip(), []).append(record)
    entry["record_types"] = [
        {
            "first_cell": name,
            "rows": len(rows),
            "widths": sorted({len(row) for row in rows}),
            "example": [cut(cell, 30) for cell in rows[0][:12]],
        }
        for name, rows in kinds.items()
    ]
    entry["rows"] = sum(map(len, kinds.values()))
    said = ", ".join(f"{name!r}: {len(rows)} rows" for name, rows in list(kinds.items())[:8])
    entry["header_row"], entry["header_sure"] = None, False
    entry["notes"].append(
        f"several record types in one file, told apart by the first cell ({said}); each has its own columns: split them before use"
    )
    entry["first_rows"] = [[cut(cell, 30) for cell in rows[0][:12]] for rows in list(kinds.values())[:4]]
    offer_lines(entry, source, text, dialect)
