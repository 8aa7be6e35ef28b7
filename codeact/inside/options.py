"""The options with which pandas reads a table rightly, and what they take care of."""

from typing import Any

from .remarks import Table

_LONG_NAME = 40
_LISTED = 8
_HANDLED = (
    ("skiprows=", "lines above the data"),
    ("nrows=", "footer"),
    ("rename(", "names stripped"),
    ("dropna(", "empty rows dropped"),
    (": str}", "codes kept as text"),
    ("dtype=str", "all columns kept as text"),
    ("keep_default_na=", "'NA' kept as text"),
    ("thousands=", "thousands marks"),
    ("decimal=", "decimal marks"),
    ("na_values=[", "marks for missing values"),
    ("na_values={", "marks for missing values"),
    ("parse_dates=", "dates"),
)


def of(table: Table) -> dict[str, Any]:
    """Options that pandas needs for these columns, whatever the file format."""
    found: dict[str, Any] = {}
    named = _named(table)
    thousands = {column.thousands for column in table.columns if column.thousands}
    decimal = {column.decimal for column in table.columns if column.decimal}
    if len(thousands) == 1:
        found["thousands"] = thousands.pop()
    if len(decimal) == 1:
        found["decimal"] = decimal.pop()
    codes = [at for at, column in enumerate(table.columns) if column.as_text]
    if len(codes) > _LISTED:
        found["dtype"] = str
    elif codes:
        found["dtype"] = dict.fromkeys([table.names[at] for at in codes] if named else codes, str)
    dates = [at for at, column in enumerate(table.columns) if column.date_form]
    if dates:
        found["parse_dates"] = [table.names[at] for at in dates] if named and len(dates) <= _LISTED else dates
    forms = {table.columns[at].date_form for at in dates}
    if len(forms) == 1 and forms != {"ISO8601"}:
        found["date_format"] = forms.pop()
    elif len(forms) > 1:
        found["date_format"] = {table.names[at] if named else at: table.columns[at].date_form for at in dates}
    found |= _missing_options(table)
    return found


def _named(table: Table) -> bool:
    """Whether options go by column names; by places where there are none, or very long ones."""
    return bool(table.shape.header) and max(map(len, table.names), default=0) <= _LONG_NAME


def _missing_options(table: Table) -> dict[str, Any]:
    """What stands for missing, where pandas by itself would take too much or too little for it."""
    marks = sorted({mark for column in table.columns for mark in column.marks})
    coded = [column for column in table.columns if column.na_code]
    if not coded:
        return {"na_values": _where(table, marks)} if marks else {}
    codes = {token for column in coded for token in column.pandas_marks}
    elsewhere = {token for column in table.columns if not column.na_code for token in column.pandas_marks}
    if codes & elsewhere:
        return {
            "converters": {
                column.name if _named(table) else at: str
                for at, column in enumerate(table.columns)
                if column.na_code
            },
            **({"na_values": marks} if marks else {}),
        }
    return {"keep_default_na": False, "na_values": ["", *sorted(elsewhere), *marks]}


def _where(table: Table, marks: list[str]) -> list[str] | dict[Any, list[str]]:
    """Marks for missing values: of all columns, or of each alone where what is a mark in one is a value in another."""
    values = any(
        cell.strip() in marks and cell.strip() not in column.marks
        for record in table.body
        for column, cell in zip(table.columns, record, strict=False)
    )
    if not values:
        return marks
    named = _named(table)
    return {
        column.name if named else at: column.marks for at, column in enumerate(table.columns) if column.marks
    }


class _Source(str):
    """Text that writes itself as source: ``str`` in a dtype is a name, not a string."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def written(found: dict[str, Any]) -> dict[str, Any]:
    """The options with types written as Python names."""
    result = dict(found)
    for key in ("dtype", "converters"):
        if key in found:
            kinds = found[key]
            result[key] = _Source(
                "str" if kinds is str else "{" + ", ".join(f"{name!r}: str" for name in kinds) + "}"
            )
    return result


def note_handled(entry: dict[str, Any], code: str) -> None:
    """Says which of the oddities the reading line mends, so that nobody mends them twice."""
    done = [words for part, words in _HANDLED if part in code.replace("na_values=['']", "")]
    if done and entry["notes"]:
        entry["notes"].append(f"the reading line handles this already: {', '.join(done)}")
