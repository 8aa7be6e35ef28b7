"""Where a table begins and ends: preamble, header rows, data, footer. Works on text records from any source."""

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field

from .cells import SPACES, YEAR, family, tag

_LOOKED_AT = 60
_BODY = 400
TOTAL = re.compile(
    r"\W*(grand |sub)?(total|totals|sum|summe|gesamt|insgesamt|totaal|totale|totaux|suma|итого|всего|合計|合计|总计|הכל)\b",
    re.IGNORECASE,
)
Record = list[str]


@dataclass(frozen=True)
class Shape:
    """Indexes into the records: header rows, then data from ``start`` up to (not with) ``end``."""

    header: list[int]
    start: int
    end: int
    width: int
    sure: bool = True
    notes: list[str] = field(default_factory=list)


def filled(record: Record) -> list[int]:
    return [at for at, cell in enumerate(record) if cell.strip(SPACES)]


def find(records: list[Record]) -> Shape:
    """The shape of a table. Without anything to go by: the first filled row is the header, and that is unsure."""
    full = [at for at, record in enumerate(records) if filled(record)]
    if not full:
        return Shape([], 0, 0, 0, False)
    width = _usual_width([records[at] for at in full])
    kinds = _column_kinds([records[at] for at in full])
    top = full[:_LOOKED_AT]
    first = next(
        (at for at in top if _is_data(records[at], kinds) and not _years(records[at], records, at)), None
    )
    if not kinds or first is None:
        return _without_types(records, full, width)
    above = [at for at in top if at < first]
    best = _best_header(records, above)
    sizes = sorted(len(filled(records[at])) for at in full if at >= first)
    usual = sizes[len(sizes) // 2]
    if best is None or _too_empty(records[best], min(usual, width), width):
        end = _footer(records, first, kinds, width)
        return Shape(
            [], first, end, width, best is None, [] if best is None else ["no header row was recognised"]
        )
    header = _stack(records, best, first, kinds, width, full)
    end = _footer(records, header[-1] + 1, kinds, width)
    return Shape(header, header[-1] + 1, end, max(width, len(records[best])), len(header) == 1)


def _too_empty(record: Record, usual: int, width: int) -> bool:
    """Whether a row above the data has too few cells to name the columns."""
    if width == 2 == len(record) and filled(record) == [1]:  # labels without a name, and what is told of them
        return False
    cells = len(filled(record))
    return (
        (cells == 1 and width > 1) or cells * 2 < usual or (cells * 2 == usual and len(record) * 2 <= width)
    )


def _usual_width(records: list[Record]) -> int:
    counts = Counter(len(record) for record in records)
    return max(counts, key=lambda width: (counts[width], width))


def _column_kinds(rows: list[Record]) -> dict[int, str]:
    """Columns whose filled cells are mostly numbers or mostly dates, by the rows after the first few."""
    body = rows[max(1, min(3, len(rows) // 3)) :] or rows
    if len(body) > 2 * _BODY:
        body = body[:_BODY] + body[-_BODY:]
    counts: dict[int, Counter[str]] = {}
    for row in body:
        for at in filled(row):
            counts.setdefault(at, Counter())[family(tag(row[at]))] += 1
    found = {}
    for at, counter in counts.items():
        name, count = counter.most_common(1)[0]
        if name != "text" and count * 10 >= 6 * counter.total() and counter.total() * 20 >= len(body):
            found[at] = name
    return found


def _is_data(record: Record, kinds: dict[int, str]) -> bool:
    judged = [at for at in filled(record) if at in kinds]
    right = sum(family(tag(record[at])) == kinds[at] for at in judged)
    return (
        bool(judged)
        and right * 2 >= len(judged)
        and (right > 1 or len(judged) == len(kinds) or right * 3 >= len(kinds))
    )


def _years(record: Record, records: list[Record], at: int) -> bool:
    """A header of years: distinct, in order, one step apart in most places, and not repeated below."""
    values = [int(cell) for cell in _stripped(record) if YEAR.fullmatch(cell)]
    others = [cell for cell in _stripped(record) if cell and not YEAR.fullmatch(cell)]
    if (
        len(values) < 2
        or len(values) <= len(others)
        or values not in (sorted(set(values)), sorted(set(values), reverse=True))
    ):
        return False
    below = [row for row in records[at + 1 : at + 4] if len(filled(row)) > 1]
    return all(sum(bool(YEAR.fullmatch(cell)) for cell in _stripped(row)) * 2 <= len(values) for row in below)


def _stripped(record: Record) -> list[str]:
    return [cell.strip(SPACES) for cell in record]


def _best_header(records: list[Record], above: list[int]) -> int | None:
    """The fullest row above the data; of equals the last."""
    return max(above, key=lambda at: (len(filled(records[at])), at), default=None)


def _stack(
    records: list[Record], best: int, first: int, kinds: dict[int, str], width: int, full: list[int]
) -> list[int]:
    """The header row with the group rows above it and the unit or name rows below it."""
    header = [best]
    size = len(filled(records[best]))
    for at in range(best - 1, -1, -1):
        cells = filled(records[at])
        pair = cells in ([0, 1], [0]) and size >= 4
        if len(cells) < max(2, size // 4) or pair or len(records[at]) * 2 < width:
            break
        header.insert(0, at)
    for at in range(best + 1, first):
        cells = filled(records[at])
        judged = [column for column in cells if column in kinds]
        if not cells:
            continue
        if not judged or not _violates(records[at], kinds):
            break
        if _recurs(records, at, kinds, [row for row in full if row > first]):
            break
        header.append(at)
    return header


def _violates(record: Record, kinds: dict[int, str]) -> bool:
    """Whether all cells of typed columns are of another family: words over numbers."""
    judged = [at for at in filled(record) if at in kinds]
    return bool(judged) and all(family(tag(record[at])) != kinds[at] for at in judged)


def _recurs(records: list[Record], at: int, kinds: dict[int, str], below: list[int]) -> bool:
    """Rows that fill the same cells with words recur among the data: section titles, not a header."""
    cells = filled(records[at])
    return sum(filled(records[row]) == cells and _violates(records[row], kinds) for row in below[:200]) > 1


def _without_types(records: list[Record], full: list[int], width: int) -> Shape:
    """All columns are text: the first row that is nearly as full as the usual one is taken for the header."""
    counts = sorted(len(filled(records[at])) for at in full)
    usual = counts[len(counts) // 2]
    best = next((at for at in full[:_LOOKED_AT] if len(filled(records[at])) * 10 >= 8 * usual), full[0])
    row = _stripped(records[best])
    below = {cell for at in full if at > best for cell in _stripped(records[at])[:60]}
    repeated = sum(cell in below for cell in row if cell)
    long = any(len(cell) > 80 for cell in row) and width > 1
    body = [_stripped(records[at]) for at in full if at > best]
    sure = (
        repeated == 0
        and len(full) > 2
        and not long
        and len(set(row)) == len(row)
        and _stands_out(row, body[:_BODY])
    )
    end = _footer(records, best + 1, {}, width)
    return Shape(
        [best],
        best + 1,
        end,
        width,
        sure,
        [] if sure else ["all cells are text: whether this row is a header is a guess"],
    )


def _stands_out(row: Record, body: list[Record]) -> bool:
    """Whether in some column the first cell is not like those below it: written in another way, or they repeat."""
    for at, cell in enumerate(row):
        below = [record[at] for record in body if at < len(record) and record[at]]
        if len(below) > 1 and (len(set(below)) * 2 <= len(below) or _form(cell) not in map(_form, below)):
            return True
    return False


def _form(cell: str) -> str:
    """How a cell is written: `Aa` for a capitalised word, `a_a`, `A0`, `Aa Aa`."""
    signs = (
        "0" if c.isdigit() else c if not c.isalpha() else "A" if c.isupper() else "a" for c in cell[:200]
    )
    return "".join(sign for sign, _ in itertools.groupby(signs))


def _footer(records: list[Record], start: int, kinds: dict[int, str], width: int) -> int:
    """The index after the last data row: below it only blank rows, notes and sources."""
    rows = [len(filled(record)) for record in records[start:] if filled(record)]
    usual = sorted(rows)[len(rows) // 2] if rows else 0
    end = last = len(records)
    for at in range(len(records) - 1, start, -1):
        record = records[at]
        cells = filled(record)
        if cells and not _is_note(record, cells, usual, width, kinds):
            break
        if (
            len(cells) == 1
            and len(record) >= width
            and _is_key(records[start:at], record[cells[0]], cells[0])
        ):
            break
        if cells or not record or len(record) > 1:
            last = at
    else:
        return end
    # Blank records at the very end are no footer, unless separators fill them.
    if not any(filled(record) or len(record) > 1 for record in records[last:]):
        return end
    return last


def _is_key(above: list[Record], cell: str, at: int) -> bool:
    """Whether a cell with nothing beside it names one more record: written as in those above, which go on to it without a gap."""
    if not above or not filled(above[-1]) or TOTAL.match(cell):
        return False
    others = (row[at].strip(SPACES) for row in above[-_BODY:] if at < len(row) and len(filled(row)) > 1)
    return _form(cell.strip(SPACES)) in map(_form, others)


def _is_note(record: Record, cells: list[int], usual: int, width: int, kinds: dict[int, str]) -> bool:
    if width < 2 or usual < 2:
        return False
    if any(family(tag(record[at])) == kinds[at] for at in cells if at in kinds and at > 0):
        return False
    if len(cells) == 1:
        alone = record[cells[0]].strip(SPACES)
        numeric = family(tag(alone)) in ("number", "date") and kinds.get(cells[0]) is not None
        return (usual > 2 or len(record) < width) and not numeric
    return len(record) < width and len(cells) <= max(2, usual // 3) and len(cells) < usual
