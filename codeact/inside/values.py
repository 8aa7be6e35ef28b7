"""Values as JSON and raw buffers, and back, on both sides of the bridge. Nothing is pickled, and nothing is executed.

What JSON has is itself. Anything else is an object with one key `$` that names its type, so that a reader who knows no
such type can still tell. Large binary values lie beside the JSON in buffers, which the JSON refers to by number.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from . import tables
from .records import Record

TAG = "$"
MAX_DEPTH = 64
MAX_INLINE = 4096
"""Bytes of a `bytes` value that is written into the JSON."""
MAX_TEXT = 256 * 1024
"""Characters of a text that is written into the JSON."""
MAX_DIGITS = 4000
"""Decimal digits of an integer that JSON readers take."""
WORKSPACE = PurePosixPath("/workspace")

Buffer = bytes | bytearray | memoryview
_Where = tuple[Any, Any] | None
"""Where in a value: the way to what holds it, and the last step."""

_NANOSECONDS = ("nanosecond", "nanoseconds")
"""Where moments and spans of pandas have what those of Python do not."""
_TEXTS = {str, bool, type(None)}
_LARGE = 10**15


class CannotCross(TypeError):
    """A value that cannot be handed over; the message says which, where it is, and what to pass instead."""


class BadValue(ValueError):
    """What came is not what `encode` makes."""


def encode(
    value: Any, name: str = "the value", path: Callable[[PurePath], str] | None = None
) -> tuple[Any, list[Buffer]]:
    """A value as (JSON, buffers); the JSON refers to buffers by number. `path` gives the path in the workspace of a
    file. Raises CannotCross, which calls the value `name`."""
    encoder = _Encoder(name, path or _in_workspace)
    return encoder.value(value, None, 0), encoder.buffers


def encode_whole(value: Any, name: str, path: Callable[[PurePath], str]) -> Any:
    """As `encode`, all of it as JSON, however long. Raises CannotCross for tables and arrays too."""
    return _Encoder(name, path, whole=True).value(value, None, 0)


def encode_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[Buffer]]:
    """Arguments by name, each as JSON that may refer to the buffers. Raises CannotCross, which names the argument."""
    encoder = _Encoder("", _in_workspace)
    return {name: encoder.value(value, (None, name), 1) for name, value in arguments.items()}, encoder.buffers


def size(made: Any, buffers: Sequence[Buffer]) -> int:
    """Bytes of what `encode` made, with the buffers that it refers to."""
    count = len(json.dumps(made))
    pending = [made]
    while pending:
        match pending.pop():
            case list() as items:
                pending += items
            case dict() as fields:
                pending += fields.values()
                if TAG in fields and "buffer" in fields:
                    count += memoryview(buffers[fields["buffer"]]).nbytes
    return count


def decode(
    made: Any,
    buffers: Sequence[Buffer] = (),
    *,
    record: Callable[[str, dict[str, Any]], Any] = lambda name, fields: fields,
    path: Callable[[str], Any] = PurePosixPath,
    other: Callable[[dict[str, Any]], Any] | None = None,
) -> Any:
    """What `encode` was given, from JSON and buffers of any origin. `record` makes objects with named fields, of their
    class's name and their fields; `path` makes paths, of the path in the workspace; `other` what is of a type that only
    the reader knows. Raises BadValue."""
    try:
        return _Decoder(buffers, record, path, other).value(made, 0)
    except tables.BadTable as error:
        raise BadValue(str(error)) from error


class _Encoder:
    def __init__(self, name: str, path: Callable[[PurePath], str], *, whole: bool = False) -> None:
        self._name, self._path, self._whole = name, path, whole
        self._max_text: float = math.inf if whole else MAX_TEXT
        self._max_inline: float = math.inf if whole else MAX_INLINE
        self.buffers: list[Buffer] = []

    def value(self, value: Any, where: _Where, depth: int) -> Any:
        kind = type(value)
        if kind is str and len(value) > self._max_text:
            return {TAG: "text", "buffer": self._buffer(value.encode("utf-8", "surrogatepass"))}
        if kind in _TEXTS:
            return value
        if depth > MAX_DEPTH:
            raise self._refused(
                where, f"is nested deeper than {MAX_DEPTH}, or holds itself", "a flatter value"
            )
        if kind is int:
            return _integer(value)
        if kind is float:
            return value if math.isfinite(value) else _tagged("float", str(value))
        if kind is list:
            return self._items(value, where, depth)
        if kind is dict:
            return self._mapping(value, where, depth)
        return self._other(value, where, depth)

    def _items(self, items: Iterable[Any], where: _Where, depth: int) -> list[Any]:
        listed = items if isinstance(items, list) else list(items)
        kinds = set(map(type, listed))
        if kinds <= _TEXTS and (str not in kinds or all(map(self._is_short, listed))):
            return listed
        return [self.value(item, (where, index), depth + 1) for index, item in enumerate(listed)]

    def _is_short(self, value: Any) -> bool:
        return type(value) is not str or len(value) <= self._max_text

    def _mapping(self, mapping: Mapping[Any, Any], where: _Where, depth: int) -> Any:
        if all(type(key) is str for key in mapping) and TAG not in mapping:
            return {key: self.value(item, (where, key), depth + 1) for key, item in mapping.items()}
        pairs = [
            [self.value(key, (where, key), depth + 1), self.value(item, (where, key), depth + 1)]
            for key, item in mapping.items()
        ]
        return _tagged("dict", pairs)

    def _other(self, value: Any, where: _Where, depth: int) -> Any:
        match value:
            case enum.Enum():
                return self.value(value.value, where, depth + 1)
            case Record():
                return self._object(type(value).__name__, dict(value), where, depth)
            case bool() | int() | float() | str():
                for plain in (bool, str, int, float):
                    if isinstance(value, plain):
                        return self.value(plain(value), where, depth)
            case tuple() | set() | frozenset():
                name = next(kind for kind in (tuple, frozenset, set) if isinstance(value, kind)).__name__
                return _tagged(name, self._items(value, where, depth))
            case Mapping():
                return self._mapping(value, where, depth)
            case datetime() | date() | time() | timedelta():
                if value == value and any(getattr(value, name, 0) for name in _NANOSECONDS):
                    raise self._refused(where, "has nanoseconds", "value.floor('us'), or a Series of it,")
                return _moment(value)
            case Decimal() | uuid.UUID() | complex():
                return _tagged(_NAMES[next(kind for kind in _NAMES if isinstance(value, kind))], str(value))
            case bytes() | bytearray() | memoryview():
                return self._bytes(value)
            case PurePath():
                try:
                    return _tagged("path", self._path(value))
                except ValueError as error:
                    raise self._refused(
                        where, str(error), "a path in /workspace, or the file's content"
                    ) from None
        return self._library(value, where, depth)

    def _bytes(self, value: Buffer) -> Any:
        view = memoryview(value)
        data = value if view.c_contiguous else view.tobytes()
        if view.nbytes <= self._max_inline:
            return _tagged("bytes", base64.b64encode(data).decode())
        return {TAG: "bytes", "buffer": self._buffer(data)}

    def _buffer(self, data: Buffer) -> int:
        self.buffers.append(data)
        return len(self.buffers) - 1

    def _object(self, name: str, fields: Mapping[str, Any], where: _Where, depth: int) -> Any:
        made = {key: self.value(item, (where, key), depth + 1) for key, item in fields.items()}
        return {TAG: "object", "class": name, "v": made}

    def _library(self, value: Any, where: _Where, depth: int) -> Any:
        """Values of pandas, NumPy and the like, and objects with named fields."""
        kind = type(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return self._object(kind.__name__, {name: getattr(value, name) for name in names}, where, depth)
        if isinstance(fields := getattr(kind, "model_fields", None), Mapping) and not isinstance(value, type):
            extra = getattr(value, "model_extra", None) or {}
            named = {name: getattr(value, name) for name in fields}
            return self._object(kind.__name__, {**named, **extra}, where, depth)
        try:
            found = tables.encode(value)
        except tables.CannotEncode as error:
            raise self._refused(where, error.reason, error.instead) from error
        if found is not None:
            if isinstance(found, tables.Plain):
                return self.value(found.value, where, depth + 1)
            if self._whole:
                raise self._refused(where, "is a table in a value that is too large", "it by itself")
            return self._table(found, where, depth)
        reason, instead = _hint(value)
        raise self._refused(where, reason, instead)

    def _table(self, found: tables.Encoded, where: _Where, depth: int) -> Any:
        made = {TAG: found.tag, **found.fields, "buffer": self._buffer(found.data)}
        if found.beside:
            made["beside"] = {
                name: self.value(item, (where, name), depth + 1) for name, item in found.beside.items()
            }
        if found.cells:
            made["cells"] = {
                str(at): self._buffer(json.dumps(self._items(cells, (where, label), depth + 1)).encode())
                for at, (label, cells) in found.cells.items()
            }
        return made

    def _refused(self, where: _Where, reason: str, instead: str) -> CannotCross:
        steps: list[Any] = []
        while where is not None:
            where, step = where
            steps.append(step)
        steps.reverse()
        name = self._name or (str(steps.pop(0)) if steps else "the value")
        shown = "".join(f"[{_step(step)}]" for step in steps[:8]) + ("[...]" if len(steps) > 8 else "")
        return CannotCross(f"{name}{shown} {reason}; pass {instead} instead")


def _step(step: Any) -> str:
    try:
        text = repr(step)
    except Exception:  # noqa: BLE001 - code of whoever made the key
        text = type(step).__name__
    return text if len(text) <= 60 else f"{text[:59]}…"


def _hint(value: Any) -> tuple[str, str]:
    """Why a value cannot cross, and what can."""
    kind = type(value).__name__
    if isinstance(value, type):
        return f"is the class {value.__name__}", "an object of it, or its name"
    if hasattr(value, "__await__"):
        return f"is a {kind} that was not awaited", "its result, with await,"
    if callable(value):
        return f"is the function {getattr(value, '__name__', kind)}", "its result"
    if hasattr(value, "read"):
        return f"is an open file ({kind})", "its content, or its path in /workspace"
    if hasattr(value, "__next__"):
        return f"is a {kind}, which can be read once only", "list(...) of it"
    return f"is a {kind}, which cannot leave its side", "plain values, a list or a dict of what matters in it"


def _in_workspace(path: PurePath) -> str:
    """The path of a file in the workspace, relative to it; a relative path is one from the current folder, where that is
    in the workspace."""
    here = PurePosixPath(Path.cwd())
    whole = PurePosixPath(os.path.normpath((here if here.is_relative_to(WORKSPACE) else WORKSPACE) / path))
    if not whole.is_relative_to(WORKSPACE):
        raise ValueError(f"is {str(path)[:100]!r}, which is not in the workspace")
    return str(whole.relative_to(WORKSPACE))


_NAMES: dict[type, str] = {Decimal: "decimal", uuid.UUID: "uuid", complex: "complex"}


def _tagged(name: str, value: Any) -> dict[str, Any]:
    return {TAG: name, "v": value}


def _integer(value: int) -> Any:
    if -_LARGE < value < _LARGE or value.bit_length() * 0.30103 < MAX_DIGITS:
        return value
    return _tagged("int", hex(value))


def _moment(value: Any) -> Any:
    if value != value:  # pandas' NaT
        return None
    if isinstance(value, timedelta):
        return _tagged("timedelta", [value.days, value.seconds, value.microseconds])
    if isinstance(value, datetime):
        return _zoned("datetime", datetime.combine(value.date(), value.timetz()), value.tzinfo, value)
    if isinstance(value, date):
        return _tagged("date", date(value.year, value.month, value.day).isoformat())
    return _zoned("time", value, value.tzinfo, None)


def _zoned(name: str, value: Any, zone: tzinfo | None, moment: datetime | None) -> Any:
    """With the name of its zone where that has one, for then its offset alone does not say all."""
    key = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if not isinstance(key, str) or key == "UTC":
        if zone is not None and value.utcoffset() is None:
            value = value.replace(tzinfo=None)
        return _tagged(name, value.isoformat())
    made = {TAG: name, "v": value.replace(tzinfo=None, fold=0).isoformat(), "zone": key}
    if moment is not None:
        made["offset"] = value.utcoffset().total_seconds()
        made["fold"] = value.fold
    return made


class _Decoder:
    def __init__(
        self,
        buffers: Sequence[Buffer],
        record: Callable[[str, dict[str, Any]], Any],
        path: Callable[[str], Any],
        other: Callable[[dict[str, Any]], Any] | None,
    ) -> None:
        self._buffers, self._record, self._path, self._other = buffers, record, path, other

    def value(self, made: Any, depth: int) -> Any:
        kind = type(made)
        if kind is list:
            return self._items(made, depth)
        if kind is not dict:
            return made
        if depth > 2 * MAX_DEPTH:
            raise BadValue(f"a value is nested deeper than {MAX_DEPTH}")
        if TAG not in made:
            return {key: self.value(item, depth + 1) for key, item in made.items()}
        try:
            return self._tagged(made, depth)
        except (BadValue, tables.BadTable):
            raise
        except Exception as error:
            raise BadValue(f"what should be a {str(made[TAG])[:40]} is none: {error}") from error

    def _items(self, items: list[Any], depth: int) -> list[Any]:
        if depth > 2 * MAX_DEPTH:
            raise BadValue(f"a value is nested deeper than {MAX_DEPTH}")
        if not {list, dict} & set(map(type, items)):
            return items
        return [self.value(item, depth + 1) for item in items]

    def _tagged(self, made: dict[str, Any], depth: int) -> Any:
        given = made.get("v")
        match made[TAG]:
            case "float":
                return float(given)  # type: ignore[arg-type]
            case "int":
                return int(given, 16)  # type: ignore[arg-type]
            case "tuple":
                return tuple(self._items(given, depth + 1))  # type: ignore[arg-type]
            case "set":
                return set(self._items(given, depth + 1))  # type: ignore[arg-type]
            case "frozenset":
                return frozenset(self._items(given, depth + 1))  # type: ignore[arg-type]
            case "dict":
                pairs: Any = given
                return {self.value(key, depth + 2): self.value(item, depth + 2) for key, item in pairs}
            case "object":
                return self._object(made, given, depth)
            case "bytes":
                if "buffer" in made:
                    return bytes(self._buffer(made["buffer"]))
                return base64.b64decode(given, validate=True)  # type: ignore[arg-type]
            case "text":
                return str(self._buffer(made["buffer"]), "utf-8", "surrogatepass")
            case "path":
                return self._path(_relative(given))
            case str() as name if name in _SIMPLE:
                return _SIMPLE[name](made)
            case str() as name if name in tables.TAGS:
                return tables.decode(name, self._came(made, depth), memoryview(self._buffer(made["buffer"])))
        if self._other is not None:
            return self._other(made)
        raise BadValue(f"there is no type {str(made[TAG])[:40]!r}")

    def _object(self, made: dict[str, Any], fields: Any, depth: int) -> Any:
        name = made.get("class")
        if not isinstance(fields, dict) or not isinstance(name, str):
            raise BadValue("an object has no class or no fields")
        return self._record(name, {key: self.value(item, depth + 1) for key, item in fields.items()})

    def _came(self, made: dict[str, Any], depth: int) -> tables.Came:
        beside, cells = made.get("beside", {}), made.get("cells", {})
        return tables.Came(
            made,
            {str(name): self.value(item, depth + 1) for name, item in beside.items()},
            {
                int(at): self._items(json.loads(bytes(self._buffer(number))), depth + 1)
                for at, number in cells.items()
            },
        )

    def _buffer(self, number: Any) -> Buffer:
        if type(number) is not int or not 0 <= number < len(self._buffers):
            raise BadValue("a value refers to a buffer that did not come")
        return self._buffers[number]


def _relative(given: Any) -> str:
    path = PurePosixPath(given)
    if path.is_absolute() or ".." in path.parts or "\0" in given:
        raise BadValue("a path is not in the workspace")
    return str(path)


def _timedelta(made: Mapping[str, Any]) -> timedelta:
    days, seconds, microseconds = made["v"]
    return timedelta(days, seconds, microseconds)


def _datetime(made: Mapping[str, Any]) -> datetime:
    value = datetime.fromisoformat(made["v"])
    zone = _zone(made)
    if zone is None:
        return value
    zoned = value.replace(tzinfo=zone, fold=1 if made.get("fold") == 1 else 0)
    offset = timedelta(seconds=made["offset"])
    # where this side knows the zone otherwise, or not at all, the moment is what counts
    return zoned if zoned.utcoffset() == offset else value.replace(tzinfo=timezone(offset))


def _time(made: Mapping[str, Any]) -> time:
    value = time.fromisoformat(made["v"])
    return value if value.tzinfo is not None else value.replace(tzinfo=_zone(made))


def _zone(made: Mapping[str, Any]) -> tzinfo | None:
    name = made.get("zone")
    if not isinstance(name, str):
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # a name of no zone, or one that this side has no data for
        return UTC if "offset" in made else None


_SIMPLE: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "datetime": _datetime,
    "date": lambda made: date.fromisoformat(made["v"]),
    "time": _time,
    "timedelta": _timedelta,
    "decimal": lambda made: Decimal(made["v"]),
    "uuid": lambda made: uuid.UUID(made["v"]),
    "complex": lambda made: complex(made["v"]),
}
