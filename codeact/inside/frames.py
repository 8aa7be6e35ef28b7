"""What a DataFrame holds, column by column: told of the very table that a reading line makes."""

from collections import Counter
from typing import Any

from .columns import EXACT, cut, text_examples

_COLUMNS = 300
_BOOL = "bool: True or False"


def columns(frame: Any) -> list[dict[str, Any]]:
    """One description a column of a pandas DataFrame: name, type, missing, and range or examples."""
    return [_column(str(name), frame.iloc[:, at]) for at, name in enumerate(frame.columns[:_COLUMNS])]


def rounded(frame: Any) -> list[str]:
    """Columns of whole numbers that lost digits, since missing values made floats of them."""
    columns = ((str(name), frame.iloc[:, at]) for at, name in enumerate(frame.columns[:_COLUMNS]))
    return [name for name, values in columns if values.dtype.kind == "f" and _rounded(values)]


def _rounded(values: Any) -> bool:
    present = values.dropna()
    if not 0 < len(present) < len(values):
        return False
    return bool(EXACT <= present.abs().max() < 2**64 and (present % 1 == 0).all())


def first_rows(frame: Any, count: int) -> list[list[str]]:
    rows = frame.head(count).astype(object).where(frame.head(count).notna(), "").to_numpy().tolist()
    return [[cut(str(cell).removesuffix(" 00:00:00")) for cell in row] for row in rows]


def as_read(described: list[dict[str, Any]], frame: Any, *, whole: bool = True) -> None:
    """Makes descriptions of a file's columns true of ``frame``, read from it: names, missing values, dates.

    ``whole`` is false where the frame holds the first rows only.
    """
    for at, column in enumerate(described):
        name, values = frame.columns[at], frame.iloc[:, at]
        column["name"] = str(name)
        if not isinstance(name, str):
            column["name_is_integer"] = True
        if whole:
            column["missing"] = int(values.isna().sum())
        if values.dtype.kind == "M" and whole:
            column |= {"type": "datetime"} | _ends(values.dropna())
            column.pop("note", None)
        elif column["type"] in ("date", "date-time", "month", "time") and values.dtype.kind != "M":
            column["type"] += " as text"
        elif column["type"] == "true/false":
            _flag(column, values.dropna())
        if not column["missing"] and "as missing" in column.get("note", ""):
            del column["note"]


def _flag(column: dict[str, Any], present: Any) -> None:
    if len(present) and isinstance(present.tolist()[0], bool):
        column["type"] = _BOOL
        column.pop("examples", None)
    else:
        column["type"] = "text"


def _column(name: str, values: Any) -> dict[str, Any]:
    present = values.dropna()
    found: dict[str, Any] = {"name": name, "missing": len(values) - len(present)}
    kind = values.dtype.kind
    if not len(present):
        return found | {"type": "empty"}
    if kind in "iu":
        return found | {"type": "integer"} | _ends(present)
    if kind == "f":
        return found | {"type": "decimal"} | _ends(present)
    if kind == "b":
        return found | {"type": _BOOL}
    if kind == "M":
        return found | {"type": "datetime"} | _ends(present)
    return found | _objects(present)


def _ends(present: Any) -> dict[str, Any]:
    return {"min": _plain(present.min()), "max": _plain(present.max())}


def _plain(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else cut(str(value).removesuffix(" 00:00:00"), 36)


def _objects(present: Any) -> dict[str, Any]:
    kinds = Counter(type(value).__name__ for value in present)
    if set(kinds) != {"str"}:
        example = cut(str(present.iloc[0]), 40)
        return {"type": " or ".join(sorted(kinds)), "examples": [example]}
    counts = Counter(present)
    return {"type": "text", "distinct": len(counts), "examples": text_examples(counts)}
