"""Dataclasses as JSON and back, by their type hints alone; and the JSON Schema of what comes of them.

What a reader does not know is passed over, and what an older file has not is left to the defaults: so files of other
versions load.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sandbox.types import CellError, Dropped, Notice, Rich, Rung, Stream

TAGS: Mapping[type, str] = {
    Stream: "stream",
    Rich: "rich",
    CellError: "error",
    Dropped: "dropped",
    Notice: "notice",
    Rung: "rung",
}
"""What an output says of itself in its field `type`."""
_KINDS = {tag: kind for kind, tag in TAGS.items()}
_SIMPLE: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": ["number", "null"], "description": "null for what JSON has no number for"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Path: {"type": "string"},
    Any: {},
}


@cache
def fields(kind: type) -> Mapping[str, Any]:
    """The types of a dataclass's fields, by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def decode(hint: Any, value: Any) -> Any:
    """A JSON value as what a type hint asks for. Raises TypeError or ValueError for what is not of that form."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, value)
    if origin is tuple:
        return tuple(decode(arguments[0], item) for item in _of(list, value))
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        return {str(key): decode(arguments[1], item) for key, item in _of(dict, value).items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        known = _of(dict, value)
        return hint(
            **{name: decode(kind, known[name]) for name, kind in fields(hint).items() if name in known}
        )
    if hint is Path:
        return Path(_of(str, value))
    if hint is float:
        return float("nan") if value is None else float(value)
    if hint in (str, int, bool):
        return _of(hint, value)
    return value


def _decode_union(arguments: Sequence[Any], value: Any) -> Any:
    if value is None and type(None) in arguments:
        return None
    if isinstance(value, dict) and _KINDS.get(str(value.get("type"))) in arguments:
        return decode(_KINDS[value["type"]], value)
    rest = [argument for argument in arguments if argument is not type(None)]
    if len(rest) != 1:
        raise ValueError(f"{str(value)[:60]!r} is none of {', '.join(map(str, rest))}")
    return decode(rest[0], value)


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{str(value)[:60]!r} is not a {kind.__name__}")
    return value


def json_schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a type hint; dataclasses go into `definitions` by their name."""
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [json_schema(argument, definitions) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": json_schema(arguments[0], definitions)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": json_schema(arguments[1], definitions)}
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = {}  # it may hold itself
        definitions[hint.__name__] = object_schema(hint, definitions, tag=TAGS.get(hint))
    return {"$ref": f"#/$defs/{hint.__name__}"}


def object_schema(kind: type, definitions: dict[str, Any], *, tag: str | None = None) -> dict[str, Any]:
    """The JSON Schema of a dataclass as an object, `tag` in its field `type`. Fields with defaults may be missing."""
    known = fields(kind)
    properties = {name: json_schema(hint, definitions) for name, hint in known.items()}
    required = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if tag is not None:
        properties = {"type": {"const": tag}, **properties}
        required = ["type", *required]
    said = (kind.__doc__ or "").strip()
    about = (
        {} if said.startswith(f"{kind.__name__}(") or not said else {"description": " ".join(said.split())}
    )
    return {**about, "type": "object", "properties": properties, "required": required}
