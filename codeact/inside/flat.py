"""Nested records as a table: whether that loses nothing, and the expression that does it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_META = 12


@dataclass(frozen=True)
class Table:
    """``code`` makes a DataFrame of ``rows`` rows; ``each`` is the key whose items the rows are, if not the records."""

    code: str
    rows: int
    each: str = ""


def table(data: str, records: list[Any]) -> Table | None:
    """The expression for records that lie in ``data``; None where a table would lose something or be ambiguous."""
    if not records or not all(isinstance(record, dict) and record for record in records):
        return None
    leaves = [list(_leaves(record)) for record in records]
    if any(len(set(map(".".join, map(_texts, paths)))) < len(paths) for paths in leaves):
        return None  # a key with a point in it takes the place of a nested one
    if any(_has_empty_object(record) for record in records):
        return None
    arrays = {path for record in records for path, value in _items(record) if _is_array(value)}
    if not arrays:
        nested = any(isinstance(value, dict) for record in records for value in record.values())
        return Table(f"pd.{'json_normalize' if nested else 'DataFrame'}({data})", len(records))
    return _exploded(data, records, next(iter(arrays))) if len(arrays) == 1 else None


def _exploded(data: str, records: list[Any], path: tuple[str, ...]) -> Table | None:
    """One row an item of the one array of objects; every record must have it, filled, and all other keys."""
    if len(path) > 1:
        return None
    (key,) = path
    if not all(isinstance(record.get(key), list) and record[key] for record in records):
        return None
    items = [item for record in records for item in record[key]]
    if not all(isinstance(item, dict) and item for item in items) or any(
        _is_array(value) for item in items for _, value in _items(item)
    ):
        return None
    others = [tuple(one for one, _ in _items(record) if one != path) for record in records]
    if len(set(map(frozenset, others))) != 1 or len(others[0]) > _META:
        return None
    meta = [one[0] if len(one) == 1 else list(one) for one in others[0]]
    code = f"pd.json_normalize({data}, record_path={key!r}, meta={meta!r}, record_prefix={key + '.'!r}).infer_objects()"
    return Table(code, len(items), key)


def _items(record: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Paths and values of what is no object."""
    for key, value in record.items():
        if isinstance(value, dict) and value and len(above) < 20:
            yield from _items(value, (*above, key))
        else:
            yield (*above, key), value


def _leaves(record: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    return (path for path, _ in _items(record))


def _texts(path: tuple[str, ...]) -> list[str]:
    return [str(key) for key in path]


def _is_array(value: Any) -> bool:
    """A list that holds objects or lists; one of plain values fits a cell."""
    return isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def _has_empty_object(record: dict[str, Any]) -> bool:
    return any(value == {} for _, value in _items(record) if isinstance(value, dict))
