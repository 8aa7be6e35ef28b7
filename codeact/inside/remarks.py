"""What a careful analyst would say of a table before using it, in plain sentences."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .columns import Column, cut, plural
from .dialect import Record
from .shape import TOTAL, Shape, filled

_ALL_NAMES = 900


@dataclass(frozen=True)
class Table:
    """Records with their shape, described columns and names."""

    records: list[Record]
    lines: list[int]
    shape: Shape
    names: list[str]
    columns: list[Column]
    rows: int

    @property
    def body(self) -> list[Record]:
        return [record for record in self.records[self.shape.start : self.shape.end] if not blank(record)]


def blank(record: Record) -> bool:
    """What pandas skips as a blank line: nothing, or one empty cell."""
    return not record or (len(record) == 1 and not record[0].strip(" \t\r"))


def writable(names: list[str]) -> bool:
    """Whether all names fit a reading line."""
    return sum(len(repr(name)) for name in names) <= _ALL_NAMES


def on_header(entry: dict[str, Any], table: Table) -> None:
    found, notes = table.shape, entry["notes"]
    notes += found.notes
    if not found.header and table.rows:
        notes.append("no header row: the column names are the integers 0, 1, ...: write df[0], not df['0']")
    if len(found.header) > 1:
        entry["header_rows"] = found.header
        lines = [table.lines[at] for at in found.header]
        how = (
            "the names are merged from them (unsure: check)"
            if writable(table.names)
            else "df has the names of the last one only"
        )
        notes.append(f"{len(lines)} header rows, lines {lines[0]} to {lines[-1]}: {how}")
    skipped = found.header[0] if found.header else found.start
    if skipped:
        line = table.lines[skipped]
        before = [" ".join(record) for record in table.records[:skipped] if filled(record)]
        said = f", like {cut(before[0], 50)!r}" if before else " (blank)"
        counted = f"the first {line - 1} lines are" if line > 2 else "the first line is"
        notes.append(f"{counted} no data{said}")
    if not found.header:
        return
    header = table.records[found.header[-1]] if len(found.header) == 1 else table.names
    doubles = [name for name, count in Counter(header).items() if count > 1 and name.strip()]
    for name in doubles[:3]:
        at = [place for place, one in enumerate(header) if one == name]
        notes.append(
            f"{len(at)} columns are called {cut(name, 30)!r}: pandas names them {', '.join(repr(table.names[p]) for p in at[:4])}"
        )
    empty = [at for at, name in enumerate(header) if not name.strip()]
    if empty:
        notes.append(
            f"{plural(len(empty), 'column')} without a name (number {numbers([at + 1 for at in empty])}): pandas names them {table.names[empty[0]]!r}{' and so on' if len(empty) > 1 else ''}"
        )
    padded = [name for name in header if name != name.strip() and name.strip()]
    if padded:
        what = "no-break spaces" if any("\xa0" in name for name in padded) else "spaces"
        notes.append(f"{plural(len(padded), 'column name')} with leading or trailing {what} in the file")
    if any("\n" in name or "\r" in name for name in header):
        notes.append("column names contain line breaks")
    extra = sum(name.startswith("extra_") for name in table.names)
    if not extra and len(table.names) > len(header):
        notes.append(
            f"the header has one name less than the rows have cells, as R writes it: the first column is called {table.names[0]!r}"
        )
    if extra:
        notes.append(f"some rows have {extra} more cells than the header")


def on_body(notes: list[str], table: Table, body: list[Record], whole: bool) -> None:
    width = len(table.names)
    short = [at for at, record in enumerate(body) if len(record) < width] if table.shape.header else []
    usual = Counter(map(len, body)).most_common(1)
    ragged = Counter(map(len, body))
    if len(ragged) > 1 and usual:
        odd = sum(count for size, count in ragged.items() if size != usual[0][0])
        notes.append(
            f"ragged: {odd} rows have not {usual[0][0]} cells but {', '.join(str(s) for s in sorted(ragged) if s != usual[0][0])[:40]}"
        )
    elif short and len(short) == len(body):
        notes.append(f"all rows have {len(body[0])} cells, the header {width}")
    blank = sum(bool(record) and not filled(record) for record in body)
    if blank:
        notes.append(f"{plural(blank, 'empty row')} among the data")
    labels = [record for record in body if len(filled(record)) == 1] if width > 3 else []
    if 0 < len(labels) < len(body) / 2:
        word = next(cell for cell in labels[0] if cell.strip())
        notes.append(
            f"{plural(len(labels), 'row')} with one cell only, like {cut(word, 40)!r} (section titles or empty records?)"
        )
    _note_totals(notes, table, body)
    if whole and len(body) <= 300_000:
        same = len(body) - len(set(map(tuple, body)))
        if same and same - blank > 0:
            notes.append(f"{plural(same, 'exact duplicate row')}")


def _note_totals(notes: list[str], table: Table, body: list[Record]) -> None:
    """Rows that sum up others, and how to leave them out where that is one comparison."""
    totals = [(at, cell) for record in body for at, cell in enumerate(record[:3]) if TOTAL.match(cell)]
    if not 0 < len(totals) <= max(3, len(body) // 10):
        return
    places, words = {at for at, _ in totals}, {cell for _, cell in totals}
    how = "do not add them to the rest"
    if len(places) == len(words) == 1 and table.shape.header:
        name, word = table.names[places.pop()].strip(), next(iter(words))
        if max(len(name), len(word)) <= 40:
            how = f"unless totals are asked for, leave them out: df = df[df[{name!r}] != {word!r}]"
    notes.append(f"{plural(len(totals), 'total row')} in df, like {cut(totals[0][1], 40)!r}: {how}")


def on_columns(notes: list[str], table: Table) -> None:
    codes = [column.name for column in table.columns if column.as_text]
    if codes:
        notes.append(f"codes with leading zeros or too many digits in {_names(codes)}")
    for column in [column for column in table.columns if column.na_code][:3]:
        notes.append(f"values 'NA' (or the like) in {column.name!r} look like codes, not missing")
    zones = [
        column.name
        for column in table.columns
        if "mixed time zones" in column.note or "mixed UTC" in column.note
    ]
    if zones:
        notes.append(
            f"mixed time zones in {_names(zones)}: convert with pd.to_datetime(df[{zones[0]!r}], utc=True, format='ISO8601'); decide what values without an offset mean"
        )
    commas = [column.name for column in table.columns if column.thousands == ","]
    points = [column.name for column in table.columns if column.thousands == "."]
    decimal = [column.name for column in table.columns if column.decimal == ","]
    for columns, words in (
        (commas, "thousands commas"),
        (points, "thousands points"),
        (decimal, "decimal commas"),
    ):
        if columns:
            notes.append(f"{words} in {_names(columns)}")
    marks = sorted({mark for column in table.columns for mark in column.marks})
    if marks:
        notes.append(
            f"{', '.join(map(repr, marks[:6]))} stands for a missing value in {_names([c.name for c in table.columns if c.marks])}"
        )
    empty = [column.name for column in table.columns if column.type == "empty"]
    if empty and table.rows:
        notes.append(f"{plural(len(empty), 'empty column')}: {_names(empty)}")


def _names(names: list[str]) -> str:
    return ", ".join(repr(cut(name, 30)) for name in names[:4]) + (
        f" and {len(names) - 4} more" if len(names) > 4 else ""
    )


def numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 4 else "")
