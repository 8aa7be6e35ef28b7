"""HTML tables from a sandbox as rows of text: nothing of their markup is kept."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser

MAX_ROWS, MAX_COLUMNS, MAX_TEXT = 500, 60, 400
MAX_HTML = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Table:
    """`header` may be empty. `left_out` counts the rows that are not there, `columns_left_out` the columns."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0
    columns_left_out: int = 0


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.header: list[str] = []
        self.rows: list[list[str]] = []
        self.count = 0
        self._row: list[str] | None = None
        self._text: list[str] | None = None
        self._in_head = self._ended = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        match tag:
            case "thead":
                self._in_head = True
            case "tr":
                self._end_row()
                self._row = []
            case "th" | "td":
                self._end_cell()
                self._text = []

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "th" | "td":
                self._end_cell()
            case "tr":
                self._end_row()
            case "thead":
                self._end_row()
                self._in_head = False
            case "table":
                self._end_row()
                self._ended = True

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def _end_cell(self) -> None:
        if self._text is not None and self._row is not None and len(self._row) < MAX_COLUMNS:
            self._row.append(" ".join("".join(self._text).split())[:MAX_TEXT])
        self._text = None

    def _end_row(self) -> None:
        self._end_cell()
        row, self._row = self._row, None
        if not row or self._ended:
            return
        if self._in_head:
            self.header = [a or b for a, b in zip(row, self.header, strict=False)] if self.header else row
            return
        self.count += 1
        if len(self.rows) < MAX_ROWS:
            self.rows.append(row)


def read_table(html: str) -> Table | None:
    """The first table of a piece of HTML; None where there is none. Never raises."""
    if len(html) > MAX_HTML or "<table" not in html:
        return None
    reader = _Reader()
    reader.feed(html[html.index("<table") :])
    reader.close()
    if not reader.rows and not reader.header:
        return None
    width = max(map(len, [reader.header, *reader.rows]))
    rows = tuple((*row, *[""] * (width - len(row))) for row in reader.rows)
    header = (*reader.header, *[""] * (width - len(reader.header))) if reader.header else ()
    return Table(header, rows, reader.count - len(reader.rows))
