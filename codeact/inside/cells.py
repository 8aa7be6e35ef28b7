"""What one cell of a text table looks like: a number, and how it is written; a date; a code; text."""

import re
from datetime import datetime

SPACES = " \t\r\n\xa0\u2007\u202f\u3000\ufeff"
PANDAS_MISSING = frozenset(
    [
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)
# Marks for "no value" that pandas keeps as text.
MISSING_MARKS = frozenset(
    [
        ".",
        "..",
        "...",
        "…",
        "-",
        "--",
        "---",
        "–",
        "—",
        "*",
        "**",
        "?",
        ":",
        "na",
        "n.a.",
        "N.A.",
        "nd",
        "n.d.",
        "N.D.",
        "ND",
        "k.A.",
        "s/d",
        "S/D",
        "none",
        "Null",
        "NIL",
        "nil",
        "#",
        "####",
        "missing",
        "Missing",
        "unknown",
        "Unknown",
        "#REF!",
        "#DIV/0!",
        "#VALUE!",
        "#NAME?",
        "-*",
        "\\N",
        "/",
    ]
) | {"k. A.", "not available", "Not available"}
_NUMBERS = (
    ("code", re.compile(r"[+-]?0\d+")),
    ("integer", re.compile(r"[+-]?\d{1,18}")),
    ("code", re.compile(r"\d{19,}")),
    ("point3", re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")),
    ("comma3", re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")),
    ("decimal", re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")),
    ("thousands,", re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")),
    ("thousands,", re.compile(r"[+-]?\d{1,3}(,\d{2})*,\d{3}(\.\d+)?")),
    ("thousands.", re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")),
    ("decimal,", re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")),
    ("thousands ", re.compile(r"[+-]?\d{1,3}([ \xa0\u2009\u202f']\d{3})+([.,]\d+)?")),
    ("spaced sign", re.compile(r"[+-]\s+\d[\d,.]*|\d[\d,.]*\s?-")),
    ("bracketed", re.compile(r"\(\s*[$€£]?\d[\d,.]*\s*\)")),
    ("percent", re.compile(r"[+-]?\d[\d,.]*\s*%")),
    (
        "money",
        re.compile(
            r"[+-]?\s*([$€£¥₹]|USD|EUR|GBP|R\$|kr)\s*[+-]?\d[\d,. ']*|[+-]?\d[\d,. ']*\s*([$€£¥₽]|USD|EUR|GBP|kr|zł|Kč)"
        ),
    ),
)
_TIME = r"([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp][Mm])?)"
_OFFSET = r"( ?(?P<offset>Z|UTC|GMT|[+-]\d{2}(:?\d{2})?))"
_MONTH = r"[A-Za-zÀ-ÿ]{3,9}\.?"
_DATES = (
    ("%Y-%m-%d", re.compile(rf"\d{{4}}-\d{{1,2}}-\d{{1,2}}{_TIME}?{_OFFSET}?")),
    ("%Y/%m/%d", re.compile(rf"\d{{4}}/\d{{1,2}}/\d{{1,2}}{_TIME}?{_OFFSET}?")),
    ("%Y.%m.%d", re.compile(rf"\d{{4}}\.\d{{1,2}}\.\d{{1,2}}{_TIME}?")),
    ("slash", re.compile(rf"\d{{1,2}}/\d{{1,2}}/(\d{{4}}|\d{{2}}){_TIME}?{_OFFSET}?")),
    ("%d.%m.%Y", re.compile(rf"\d{{1,2}}\.\d{{1,2}}\.(\d{{4}}|\d{{2}}){_TIME}?")),
    ("dash", re.compile(rf"\d{{1,2}}-\d{{1,2}}-(\d{{4}}|\d{{2}}){_TIME}?")),
    ("%d-%b-%Y", re.compile(rf"\d{{1,2}}-{_MONTH}-(\d{{4}}|\d{{2}}){_TIME}?")),
    ("%d %b %Y", re.compile(rf"\d{{1,2}}\.? {_MONTH} \d{{4}}{_TIME}?")),
    ("%b %d, %Y", re.compile(rf"{_MONTH} \d{{1,2}}, \d{{4}}{_TIME}?")),
    ("%b-%y", re.compile(r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*-(\d{4}|\d{2})")),
    ("%Y-%m", re.compile(r"(19|20)\d{2}-(0[1-9]|1[0-2])")),
    ("%H:%M", re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")),
)
_FIRST_OF_DATE = re.compile(r"[A-Za-zÀ-ÿ]{3,9}[. -]|\d")
_FLAGS = frozenset(["true", "false", "yes", "no", "ja", "nein", "oui", "non", "y", "n", "t", "f"])
NUMBERS = frozenset(tag for tag, _ in _NUMBERS)
YEAR = re.compile(r"(1[6-9]|20|21)\d{2}")
OFFSET = re.compile(_TIME + _OFFSET + "$")


def tag(value: str) -> str:
    """One of `NUMBERS`, ``empty``, ``flag``, ``text`` or ``date FORMAT``, for the value without outer spaces."""
    cell = value.strip(SPACES)
    if not cell:
        return "empty"
    if len(cell) > 40:
        return "text"
    if cell[0] in "+-.,($€£¥₹0123456789RUEGk":
        for name, pattern in _NUMBERS:
            if pattern.fullmatch(cell):
                return name
    if _FIRST_OF_DATE.match(cell):
        for form, pattern in _DATES:
            if pattern.fullmatch(cell) and (form != "%d.%m.%Y" or _plausible(cell)):
                return f"date {form}"
    return "flag" if cell.lower() in _FLAGS else "text"


def _plausible(cell: str) -> bool:
    day, month = cell.split(".")[:2]
    return int(day) <= 31 and int(month) <= 12


def family(name: str) -> str:
    """``number``, ``date``, ``empty`` or ``text``: what header and data rows are told apart by."""
    if name in NUMBERS:
        return "number"
    if name.startswith("date"):
        return "date"
    return "empty" if name == "empty" else "text"


def number(cell: str, decimal: str = ".", thousands: str = "") -> float | None:
    """The value of a written number, or None."""
    text = cell.strip(SPACES).replace(thousands, "") if thousands else cell.strip(SPACES)
    try:
        return float(text.replace(decimal, ".") if decimal != "." else text)
    except ValueError:
        return None


def month_or_day_first(values: list[str]) -> str:
    """For ``3/4/2020`` kinds: ``month``, ``day`` or ``unsure``, by a part above 12."""
    first = second = False
    for value in values:
        parts = re.split(r"[/-]", value.strip(SPACES))
        if len(parts) > 2 and parts[0].isdigit() and parts[1].isdigit():
            first = first or int(parts[0]) > 12
            second = second or int(parts[1]) > 12
    if first and second:
        return "mixed"
    return "day" if first else "month" if second else "unsure"


def parses(value: str, form: str) -> bool:
    try:
        datetime.strptime(value.strip(SPACES), form)
    except ValueError:
        return False
    return True
