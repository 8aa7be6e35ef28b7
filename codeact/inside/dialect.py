"""How a text table separates and quotes its cells, found by which reading of it is the most regular."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .cells import SPACES, family, tag

csv.field_size_limit(10_000_000)
Record = list[str]
_WEIGHTS = {",": 1.0, ";": 1.0, "\t": 1.0, "|": 1.0, "^": 0.9, "~": 0.9, "\x01": 1.0, "\x1f": 1.0, ":": 0.6}
SPACED = r"\s{2,}"
BLANKS = r"\s+"
ALONE = "\x07"
"""Stands for the separator of a single column, where a reader must have one."""
_SNIFFED_LINES = 400
_WORD_IN_QUOTES = re.compile(r'^"[^"\n]+" \S', re.MULTILINE)


@dataclass(frozen=True)
class Dialect:
    """``separator`` is one character, or the pattern `SPACED` or `BLANKS`; empty for a single column. ``skip``: blanks behind it
    belong to no cell."""

    separator: str
    quote: str = '"'
    escape: str | None = None
    skip: bool = False
    score: float = 0.0
    sure: bool = True

    @property
    def pattern(self) -> bool:
        return self.separator in (SPACED, BLANKS)


def parse(text: str, dialect: Dialect) -> list[Record]:
    """All records; a broken end (an open quote, a NUL) ends the list early, never with an exception."""
    return [record for _, record in numbered(text, dialect)]


def numbered(text: str, dialect: Dialect) -> Iterator[tuple[int, Record]]:
    """Records with the 1-based number of the line each begins in."""
    if dialect.pattern:
        for number, line in enumerate(text.splitlines(), 1):
            bare = line.strip()
            yield number, re.split(dialect.separator, bare) if bare else []
        return
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.separator or ALONE,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape,
        skipinitialspace=dialect.skip,
    )
    begins = 1
    while True:
        try:
            record = next(reader)
        except (StopIteration, csv.Error):
            return
        yield begins, record
        begins = reader.line_num + 1


def sniff(text: str, *, blanks: bool = True) -> Dialect:
    """The most regular reading of the text; ``sure`` is false when another is nearly as good.

    ``blanks`` also considers columns parted by single blanks.
    """
    lines = text.splitlines(keepends=True)
    if len(lines) > 2 * _SNIFFED_LINES:  # a long preamble must not decide: the middle counts as well
        middle = len(lines) // 2
        lines = lines[:_SNIFFED_LINES] + lines[middle : middle + _SNIFFED_LINES]
    sample = "".join(lines)
    found = [_scored(sample, Dialect(mark)) for mark in _WEIGHTS if mark in sample]
    if len(_WORD_IN_QUOTES.findall(sample)) * 10 > 9 * sum(map(bool, map(str.strip, lines))):
        found.append(_scored(sample, Dialect(" "), 0.9))
    if "  " in sample:
        found.append(_scored(sample, Dialect(SPACED, quote=""), 0.75))
    if blanks and " " in sample:
        found.append(_scored(sample, Dialect(BLANKS, quote=""), 0.6))
    found = sorted((one for one in found if one.score > 0), key=lambda one: -one.score)
    if not found or found[0].score < 0.2:
        return Dialect("", quote='"' if _closed(text) else "")
    best = _quoting(sample, found[0])
    return replace(best, sure=len(found) < 2 or found[1].score < 0.85 * found[0].score)


def _closed(text: str) -> bool:
    """Whether quotes enclose whole cells of a single column, wherever they begin one."""
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), delimiter=ALONE, strict=True):
            pass
    except csv.Error:
        return False
    return True


def regularity(records: list[Record]) -> float:
    """Share of non-blank records of the commonest width above one."""
    widths = Counter(len(record) for record in records if any(cell.strip(SPACES) for cell in record))
    several = [(count, width) for width, count in widths.items() if width > 1]
    return max(several)[0] / sum(widths.values()) if several else 0.0


def _scored(sample: str, dialect: Dialect, weight: float | None = None) -> Dialect:
    records = parse(sample, dialect)
    filled = [record for record in records if any(cell.strip(SPACES) for cell in record)]
    wide = [record for record in filled if len(record) > 1]
    if not wide:
        return replace(dialect, score=0.0)
    regular = max(regularity(filled), 0.6 * len(wide) / len(filled))
    cells = [cell for record in wide[:300] for cell in record[:60] if cell.strip(SPACES)]
    if not cells:
        return replace(dialect, score=0.0)
    families = [family(tag(cell)) for cell in cells]
    typed = sum(name != "text" for name in families) / len(cells)
    others = [mark for mark in ",;\t|" if mark != dialect.separator]
    dirty = sum(
        name == "text" and sum(mark in cell for mark in others) > 0 and not _sentence(cell)
        for name, cell in zip(families, cells, strict=True)
    ) / len(cells)
    factor = _WEIGHTS.get(dialect.separator, 1.0) if weight is None else weight
    return replace(dialect, score=regular * (1 - dirty) * (0.6 + 0.4 * typed) * factor)


def _sentence(cell: str) -> bool:
    """Commas and semicolons followed by a space are punctuation, not separators."""
    return bool(re.search(r"[,;|](\s|$)", cell)) and not re.search(r"[,;\t|](?=\S)", cell)


def _quoting(sample: str, dialect: Dialect) -> Dialect:
    if dialect.pattern:
        return dialect
    as_is = regularity(parse(sample, dialect))
    mark = re.escape(dialect.separator)
    if re.search(rf'{mark} +"', sample):  # a quote that is not the first of its cell opens none
        skipping = replace(dialect, skip=True)
        worth = regularity(parse(sample, skipping))
        if worth >= as_is:
            dialect, as_is = skipping, worth
    choices = []
    if re.search(
        rf'\\"(?!\s*(?:{mark}|\r?\n|\Z|"))', sample
    ):  # where it closes its cell, as of a path, it escapes nothing
        choices.append(replace(dialect, escape="\\"))
    if '"' in sample:
        choices.append(replace(dialect, quote=""))
    elif sample.count("'") > 3 and _quoted_with_apostrophes(sample, dialect.separator):
        choices.append(replace(dialect, quote="'"))
    for choice in choices:
        worth = regularity(parse(sample, choice))
        unclosed = not choice.quote and worth > 0.9 and _swallows(parse(sample, dialect))
        if choice.quote == "'" or (choice.escape and worth >= as_is) or worth > as_is + 0.1 or unclosed:
            return choice
    return dialect


def _swallows(records: list[Record]) -> bool:
    """Whether the last record runs on over many lines: a quote that is never closed."""
    return (
        bool(records)
        and any(cell.count("\n") > 2 for cell in records[-1])
        and max(map(_breaks, records[:-1]), default=0) < 3
    )


def _breaks(record: Record) -> int:
    return max((cell.count("\n") for cell in record), default=0)


def _quoted_with_apostrophes(sample: str, separator: str) -> bool:
    mark = re.escape(separator)
    opened = len(re.findall(rf"(?:^|{mark})'", sample, re.MULTILINE))
    closed = len(re.findall(rf"'(?={mark}|\r?$)", sample, re.MULTILINE))
    return opened == closed and opened > 2


def stray_quotes(text: str, dialect: Dialect, limit: int = 5) -> list[int]:
    """Lines (1-based) in which a quote stands inside a cell without being doubled."""
    if dialect.quote != '"' or len(dialect.separator) != 1 or '"' not in text:
        return []
    mark = re.escape(dialect.separator)
    inside = re.compile(rf'[^{mark}\r\n"]"+[^{mark}\r\n"]')
    found: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if '"' not in line or (dialect.escape and '\\"' in line):
            continue
        if inside.search(line.replace('""', "")) and line.count('"') > 1:
            found.append(number)
            if len(found) == limit:
                break
    return found
