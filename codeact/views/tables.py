"""HTML tables from a sandbox as rows of text: nothing of their markup is kept."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import zip_longest

MAX_ROWS, MAX_COLUMNS, MAX_TEXT, MAX_SPAN = 500, 60, 400, 1000
MAX_HTML = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Table:
    """`header` may be empty. `left_out` counts the rows that are not there, `columns_left_out` the columns."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0
    columns_left_out: int = 0


class _Reader(HTMLParser):
    """`room` is for characters of cells that stand in several rows or columns, of which each but the first is a copy."""

    def __init__(self, room: int) -> None:
        super().__init__(convert_charrefs=True)
        self.header: list[str] = []
        self.rows: list[list[str]] = []
        self.count = self.columns = 0
        self._room = room
        self._row: list[str] | None = None
        self._beyond = 0
        """Columns of the row for which there is no room."""
        self._below: dict[int, tuple[int, str]] = {}
        """By column, for how many rows more a cell of the rows above reaches down, and as what."""
        self._text: list[str] | None = None
        self._span = (1, 1)
        self._in_head = self._typed = self._ended = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        match tag:
            case "thead" | "tbody" | "tfoot":
                self._end_part()
                self._in_head = tag == "thead"
            case "tr":
                self._end_row()
                self._row, self._beyond, self._typed = [], 0, False
                self._reach_down()
            case "th" | "td":
                self._end_cell()
                self._text = []
                self._typed |= tag == "td"
                given = dict(attrs)
                self._span = _span(given.get("colspan")), _span(given.get("rowspan"))

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "th" | "td":
                self._end_cell()
            case "tr":
                self._end_row()
            case "thead" | "tbody" | "tfoot":
                self._end_part()
            case "table":
                self._end_row()
                self._ended = True

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def _end_cell(self) -> None:
        if self._text is not None and self._row is not None:
            self._place(self._row, _cut(" ".join("".join(self._text).split())), *self._span)
        self._text = None

    def _place(self, row: list[str], text: str, wide: int, high: int) -> None:
        for placed in range(wide):
            if len(row) >= MAX_COLUMNS:
                self._beyond += wide - placed
                return
            if high > 1:  # what reaches down among names stands there once
                self._below[len(row)] = (high - 1, "" if self._in_head else text)
            row.append(self._copy(text) if placed else text)
            self._reach_down()

    def _reach_down(self) -> None:
        """Fills the row with the cells of the rows above that stand in it as well, up to the next of its own."""
        while self._row is not None and (found := self._below.pop(len(self._row), None)):
            left, text = found
            if left > 1:
                self._below[len(self._row)] = (left - 1, text)
            self._row.append(self._copy(text))

    def _copy(self, text: str) -> str:
        self._room -= len(text)
        return text if self._room >= 0 else ""

    def _end_row(self) -> None:
        self._end_cell()
        row = self._row
        while row is not None and max(self._below, default=-1) > len(row):
            row.append("")
            self._reach_down()
        self._row = None
        if not row or self._ended:
            return
        self.columns = max(self.columns, len(row) + self._beyond)
        if not self._in_head:
            self.count += 1
            if len(self.rows) < MAX_ROWS:
                self.rows.append(row)
        elif not self.header:
            self.header = row
        elif not self._typed:  # polars has the types below the names
            self.header = [
                _cut(" ".join(filter(None, parts))) for parts in zip_longest(self.header, row, fillvalue="")
            ]

    def _end_part(self) -> None:
        self._end_row()
        self._in_head = False
        self._below = {}


def _span(written: str | None) -> int:
    """Rows or columns that a cell stands in, bounded as in browsers."""
    if not written or not written.isascii() or not written.isdigit():
        return 1
    return min(max(1, int(written[:6])), MAX_SPAN)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def read_table(html: str) -> Table | None:
    """The first table of a piece of HTML, with a cell that stands in several rows or columns in each of them, and one line of
    names; None where there is none. Never raises."""
    if len(html) > MAX_HTML or "<table" not in html:
        return None
    reader = _Reader(len(html))
    reader.feed(html[html.index("<table") :])
    reader.close()
    if not reader.rows and not reader.header:
        return None
    width = max(map(len, [reader.header, *reader.rows]))
    rows = tuple((*row, *[""] * (width - len(row))) for row in reader.rows)
    header = (*reader.header, *[""] * (width - len(reader.header))) if reader.header else ()
    return Table(header, rows, reader.count - len(reader.rows), reader.columns - width)
