"""What each column of a text table holds, what is awkward about it, and which reading options mend that."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from . import cells
from .cells import MISSING_MARKS, PANDAS_MISSING, SPACES

_FIGURES = re.compile(r"[+-]?[\d.,]*\d[\d.,]*")
_CUT = 60
_LISTED, _LISTED_LENGTH = 8, 240
EXACT = 2**53
"""Up to here pandas' floats, which a column of integers becomes where values are missing, are exact."""


@dataclass(frozen=True)
class Column:
    """One column: ``name`` as pandas will call it. The options are what reading it rightly needs. ``holds`` are the points and
    commas in it, where it is made of figures alone."""

    name: str
    type: str
    missing: int
    distinct: int
    low: str | None = None
    high: str | None = None
    examples: list[str] = field(default_factory=list)
    note: str = ""
    as_text: bool = False
    na_code: bool = False
    thousands: str = ""
    decimal: str = ""
    marks: list[str] = field(default_factory=list)
    pandas_marks: list[str] = field(default_factory=list)
    date_form: str = ""
    holds: str = ""

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "missing": self.missing,
            "distinct": self.distinct,
        }
        if self.low is not None:
            found |= {"min": self.low, "max": self.high}
        if self.examples:
            found["examples"] = self.examples
        if self.note:
            found["note"] = self.note
        return found


def pandas_names(header: list[str]) -> list[str]:
    """The names that ``read_csv`` makes of a header row: doubles numbered, empty ones called ``Unnamed: N``."""
    names = [name if name else f"Unnamed: {at}" for at, name in enumerate(header)]
    seen: dict[str, int] = {}
    result = []
    for name in names:
        made = name
        while made in seen or (made != name and made in names):
            seen[name] = seen.get(name, 0) + 1
            made = f"{name}.{seen[name]}"
        seen.setdefault(made, 0)
        result.append(made)
    return result


def describe(name: str, counts: Counter[str]) -> Column:
    """A column from how often each value occurs, as written (outer spaces kept)."""
    values: Counter[str] = Counter()
    padded = 0
    for value, count in counts.items():
        bare = value.strip(SPACES)
        values[bare] += count
        padded += count if bare and bare != value else 0
    empty = values.pop("", 0)
    tags = {value: cells.tag(value) for value in values}
    column = _typed(name, values, tags, empty)
    blanks = sorted(value for value in counts if value and not value.strip(SPACES))
    if blanks and column.type not in ("text", "true/false"):
        column = replace(column, marks=[*column.marks, *blanks[:5]])
    column = replace(column, holds=_marks_held(values))
    if padded and column.type not in ("integer", "decimal"):
        return _with_note(column, f"{plural(padded, 'value')} with spaces around: strip them")
    return column


def _marks_held(values: Counter[str]) -> str:
    figures = [value for value in values if value not in PANDAS_MISSING and value not in MISSING_MARKS]
    if not all(map(_FIGURES.fullmatch, figures)):
        return ""
    return "".join(mark for mark in ".," if any(mark in value for value in figures))


def marks_apart(columns: list[Column]) -> list[Column]:
    """pandas has one mark between thousands, and one before decimals, for all columns of a file. Where these are not those of a
    column, it is read as text: addresses such as 10.0.0.1, or decimal points beside decimal commas."""
    thousands = {column.thousands for column in columns if column.thousands}
    decimal = {column.decimal for column in columns if column.decimal}
    if len(thousands) > 1 or len(decimal) > 1:
        return columns
    return [
        replace(
            column,
            type="number as text" if column.type in ("integer", "decimal") else column.type,
            as_text=True,
            note="; ".join(filter(None, (column.note, "its marks are not those of the other columns"))),
            low=None,
            high=None,
            thousands="",
            decimal="",
        )
        if not column.date_form
        and (
            any(mark in column.holds and column.thousands != mark for mark in thousands)
            or (decimal and "." in column.holds and not (column.decimal or column.thousands))
        )
        else column
        for column in columns
    ]


def _with_note(column: Column, note: str) -> Column:
    return replace(column, note="; ".join(part for part in (column.note, note) if part))


def _typed(name: str, values: Counter[str], tags: dict[str, str], empty: int) -> Column:
    if not values:
        return Column(name, "empty", empty, 0)
    marks = [value for value in values if value in PANDAS_MISSING or value in MISSING_MARKS]
    rest = {value: count for value, count in values.items() if value not in marks}
    by_tag: Counter[str] = Counter()
    for value, count in rest.items():
        by_tag[tags[value]] += count
    numbers = sum(count for name_, count in by_tag.items() if name_ in cells.NUMBERS)
    dates = Counter({name_: count for name_, count in by_tag.items() if name_.startswith("date")})
    total = sum(rest.values())
    missing = empty + sum(values[mark] for mark in marks)
    own = [mark for mark in marks if mark not in PANDAS_MISSING]
    has_pandas = [mark for mark in marks if mark in PANDAS_MISSING]
    if not total and own:
        return Column(name, "empty", missing, 0, marks=own, pandas_marks=has_pandas)
    if total and numbers == total:
        return _numeric(name, rest, by_tag, missing, own, has_pandas)
    if total and dates.total() == total:
        return _dated(name, rest, dates, missing, own, has_pandas)
    if total and numbers * 10 >= 7 * total:
        found = _numeric(
            name,
            {v: c for v, c in rest.items() if tags[v] in cells.NUMBERS},
            by_tag,
            missing,
            own,
            has_pandas,
        )
        odd = [value for value in rest if tags[value] not in cells.NUMBERS]
        note = f"{plural(sum(rest[v] for v in odd), 'value')} not a number: {_few(odd)}"
        if found.as_text or sum(rest[v] for v in odd) * 50 > total:
            return _with_note(Column(name, "mixed", missing, len(rest), examples=_examples(rest), thousands=found.thousands,
                                     decimal=found.decimal, as_text=found.as_text, marks=own, pandas_marks=has_pandas), note)  # fmt: skip
        return _with_note(replace(found, type="mixed"), note)
    if total and dates.total() * 10 >= 7 * total:
        found = _dated(name, rest, dates, missing, own, has_pandas)
        return _with_note(
            found,
            f"{plural(total - dates.total(), 'value')} not a date: {_few([v for v in rest if not tags[v].startswith('date')])}",
        )
    return _text(name, values, rest, by_tag, empty)


def _few(values: list[str]) -> str:
    return ", ".join(repr(cut(value, 25)) for value in values[:3]) + (", ..." if len(values) > 3 else "")


def cut(value: str, size: int = _CUT) -> str:
    flat = " ".join(value.split())
    return flat if len(flat) <= size else flat[: size - 1] + "…"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _examples(values: dict[str, int] | Counter[str], count: int = 3) -> list[str]:
    common = sorted(values, key=lambda value: -values[value]) if len(values) <= 12 else list(values)
    return [cut(value, 40) for value in common[:count]]


def text_examples(values: dict[str, int] | Counter[str]) -> list[str]:
    """All values where they are few and short, so that they can be filtered by; else the commonest three, cut."""
    few = len(values) <= _LISTED and all(len(value) <= _CUT for value in values)
    if few and sum(map(len, values)) <= _LISTED_LENGTH:
        return [cut(value) for value in sorted(values, key=lambda value: -values[value])]
    return _examples(values)


def _numeric(name: str, rest: dict[str, int], by_tag: Counter[str], missing: int, own: list[str], has_pandas: list[str]) -> Column:  # fmt: skip
    written = {one for one in by_tag if one in cells.NUMBERS}
    common: dict[str, Any] = {"marks": own, "pandas_marks": has_pandas}
    if "code" in written:
        codes = sum(count for value, count in rest.items() if cells.tag(value) == "code")
        sizes = {len(value) for value in rest}
        width = f", all {sizes.pop()} long" if len(sizes) == 1 else ""
        long = any(len(value) > 18 for value in rest)
        why = "digits too long for a number" if long else "leading zeros"
        if not long and written - {"code", "integer"} and codes * 20 < sum(rest.values()):
            written -= {"code"}
        else:
            return Column(name, f"digits as text{width}", missing, len(rest), *_ends(rest), _examples(rest), why,
                          as_text=True, **common)  # fmt: skip
    odd = written & {"spaced sign", "bracketed", "percent", "money", "thousands "}
    if odd:
        how = {"spaced sign": "a sign apart from the digits", "bracketed": "negative numbers in brackets",
               "percent": "percent signs", "money": "currency signs", "thousands ": "spaces or apostrophes between thousands"}  # fmt: skip
        values = [value for value in rest if cells.tag(value) in odd]
        note = (
            f"numbers written with {' and '.join(how[one] for one in sorted(odd))}: clean before to_numeric"
        )
        mark = "," if "thousands," in written or "comma3" in written else ""
        examples = [*values[:2], *_examples(rest)]
        return Column(
            name,
            "number as text",
            missing,
            len(rest),
            examples=examples[:3],
            note=note,
            thousands=mark,
            **common,
        )
    thousands, decimal, note = _separators(rest, written)
    whole = not decimal and written <= {"integer", "comma3", "point3", "thousands,", "thousands.", "code"}
    whole = (
        whole
        and not (written & {"point3"} and thousands != ".")
        and not any("." in v for v in rest if thousands == ",")
    )
    numbers = [
        found for found in (cells.number(v, decimal or ".", thousands) for v in rest) if found is not None
    ]
    if whole and missing and any(abs(one) >= EXACT for one in numbers):
        why = "digits too long for a number where values are missing"
        return Column(name, "digits as text", missing, len(rest), *_ends(rest), _examples(rest), why, as_text=True, **common)  # fmt: skip
    low, high = (_plain(min(numbers)), _plain(max(numbers))) if numbers else (None, None)
    sentinel = [
        mark
        for mark in (-999.0, -9999.0, -99.0, 9999.0, 99999.0)
        if mark in numbers and _outlier(mark, numbers)
    ]
    if sentinel:
        note = "; ".join(
            part for part in (note, f"{_plain(sentinel[0])} may stand for a missing value") if part
        )
    if (
        whole
        and high
        and len(high) == 8
        and all(re.fullmatch(r"(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])", v) for v in rest)
    ):
        note = "looks like dates written YYYYMMDD: convert with pd.to_datetime, format='%Y%m%d'"
    return Column(name, "integer" if whole else "decimal", missing, len(rest), low, high, _examples(rest), note,
                  thousands=thousands, decimal=decimal, **common)  # fmt: skip


def _outlier(mark: float, numbers: list[float]) -> bool:
    others = [value for value in numbers if value != mark]
    return len(others) > 2 and ((mark < 0 and min(others) >= 0) or mark > 5 * max(others))


def _ends(values: dict[str, int]) -> tuple[str, str]:
    return cut(min(values), 30), cut(max(values), 30)


def _plain(value: float) -> str:
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else f"{value:.10g}"


def _separators(rest: dict[str, int], written: set[str]) -> tuple[str, str, str]:
    """(thousands mark, decimal mark other than the point, note). Three digits after one mark alone can be either."""
    if written & {"thousands,"}:
        return ",", "", "commas between thousands"
    if "decimal," in written:
        if "decimal" in written or ("point3" in written and "thousands." not in written):
            if "decimal" in written:
                return "", "", "both decimal commas and decimal points: unsure, clean by hand"
            return ".", ",", "decimal commas, points between thousands"
        dots = "thousands." in written
        return ("." if dots else ""), ",", "decimal commas" + (", points between thousands" if dots else "")
    if "thousands." in written:
        return ".", ",", "points between thousands"
    if "comma3" in written:
        if "decimal" in written:
            return ",", "", "commas between thousands"
        big = any(len(value.lstrip("+-")) > 3 for value in rest if cells.tag(value) == "integer")
        return (
            ("", ",", "decimal commas (unsure: all have three digits)")
            if big
            else (",", "", "commas between thousands")
        )
    if "point3" in written and "decimal" not in written:
        plain = [value.lstrip("+-") for value in rest if cells.tag(value) == "integer"]
        several = sum(cells.tag(value) == "point3" for value in rest) > 1
        if plain and several and all(len(value) <= 3 for value in plain):
            return ".", "", "points between thousands (unsure: they may be decimal points)"
    return "", "", ""


_HINTS = {"%Y-%m-%d": "ISO dates", "%Y/%m/%d": "", "%Y.%m.%d": "", "%d.%m.%Y": "day first"}


def _dated(
    name: str, rest: dict[str, int], dates: Counter[str], missing: int, own: list[str], has_pandas: list[str]
) -> Column:
    values = [value for value in rest if cells.tag(value).startswith("date")]
    forms = [form.removeprefix("date ") for form, _ in dates.most_common()]
    form = forms[0]
    timed = [value for value in values if re.search(r"\d:\d\d", value)]
    kind = (
        "time"
        if form == "%H:%M"
        else "month"
        if form in ("%b-%y", "%Y-%m")
        else "date-time"
        if timed
        else "date"
    )
    notes = []
    zoned = [value for value in timed if cells.OFFSET.search(value)]
    if zoned and len(zoned) < len(values):
        notes.append(
            f"{len(values) - len(zoned)} of {len(values)} values have no UTC offset, the others do: mixed time zones"
        )
    if zoned:
        offsets = sorted({found["offset"] for value in zoned if (found := cells.OFFSET.search(value))})
        if len(offsets) > 1:
            notes.append(f"mixed UTC offsets ({', '.join(offsets[:4])})")
    if len(forms) > 1:
        notes.append(
            "dates in several forms: "
            + _few([next(v for v in values if cells.tag(v) == f"date {one}") for one in forms[:3]])
        )
    elif form in ("slash", "dash"):
        notes.append(_slashes(values, form, timed))
    elif not timed and (exact := _exact(form, values)):
        notes.append(f"convert with pd.to_datetime, format={exact!r}")
    date_form = "ISO8601" if form == "%Y-%m-%d" and len(forms) == 1 and not zoned else ""
    written = re.search(r"format='([^']+)'$", notes[-1]) if notes else None
    if written and len(notes) == 1 and not zoned:
        date_form = written[1]
    low, high = (
        _ends(dict.fromkeys(values, 1))
        if form.startswith("%Y") and len(forms) == 1 and not zoned
        else (None, None)
    )
    return Column(
        name,
        kind,
        missing,
        len(rest),
        low,
        high,
        _examples(rest),
        "; ".join(notes),
        marks=own,
        pandas_marks=has_pandas,
        date_form=date_form,
    )


def _slashes(values: list[str], form: str, timed: list[str]) -> str:
    mark = "/" if form == "slash" else "-"
    order = cells.month_or_day_first(values)
    if order == "unsure":
        return f"unsure whether day or month comes first ({_few(values)})"
    if order == "mixed":
        return "day-first and month-first dates mixed: unsure"
    year = "%Y" if re.search(r"\D\d{4}\b", values[0]) else "%y"
    exact = mark.join(["%d", "%m", year] if order == "day" else ["%m", "%d", year])
    return f"{order} first" + ("" if timed else f": convert with pd.to_datetime, format={exact!r}")


def _exact(form: str, values: list[str]) -> str:
    """The strptime form that all values follow; nothing for ISO dates, which need none."""
    if form == "%Y-%m-%d":
        return ""
    for one in (
        form,
        form.replace("%Y", "%y"),
        form.replace("%b", "%B"),
        form.replace("%b", "%B").replace("%Y", "%y"),
    ):
        if all(cells.parses(value, one) for value in values[:200]):
            return one
    return ""


def _text(name: str, values: Counter[str], rest: dict[str, int], by_tag: Counter[str], empty: int) -> Column:
    tokens = [value for value in values if value in PANDAS_MISSING]
    codes = _codes(rest)
    na_code = (
        bool(tokens)
        and (codes or not rest)
        and any(token in ("NA", "NaN", "NULL", "None", "nan", "null") for token in tokens)
    )
    missing = empty if na_code else empty + sum(values[token] for token in tokens)
    kind = "true/false" if rest and set(by_tag) == {"flag"} else "mixed" if _half_numbers(by_tag) else "text"
    note = ""
    if na_code:
        note = f"{_few(tokens)} may be a code, not a missing value ({sum(values[t] for t in tokens)} times)"
    elif tokens and "None" in tokens:
        note = "pandas reads 'None' as missing"
    shown = rest if not na_code else {**rest, **{token: values[token] for token in tokens}}
    return Column(name, kind, missing, len(shown), examples=text_examples(shown), note=note, na_code=na_code,
                  pandas_marks=[mark for mark in tokens if mark != "None" or na_code])  # fmt: skip


def _half_numbers(by_tag: Counter[str]) -> bool:
    return sum(count for one, count in by_tag.items() if one in cells.NUMBERS) * 5 >= by_tag.total()


def _codes(rest: dict[str, int]) -> bool:
    """Short capital codes of one length (countries, provinces, states), or a few capital labels (regions)."""
    short = [value for value in rest if re.fullmatch(r"[A-Z]{2}", value)]
    if len(rest) >= 3 and len(short) * 20 >= 19 * len(rest):
        return True
    labels = [value for value in rest if re.fullmatch(r"[A-Z]{2,6}", value)]
    return 2 <= len(rest) <= 40 and len(labels) == len(rest)
