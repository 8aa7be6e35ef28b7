"""What an OpenAPI document refers to within itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from codeact.errors import ToolSourceError

_DATA = {"example", "examples", "default", "enum", "const"}
"""What is below these is anybody's data, and refers to nothing."""


def target(pointer: str, document: Any) -> Any:
    """What a reference of the form `#/a/b` names; None where that is nothing."""
    found = document
    if not pointer.startswith("#/"):
        return document if pointer == "#" else None
    for part in unquote(pointer[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        match found:
            case Mapping():
                found = found.get(key)
            case list() if key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            case _:
                return None
    return found


def check(item: Any, document: Any, place: str) -> None:
    """Raises ToolSourceError where something that `item` refers to, however far, is not there."""
    seen: set[str] = set()
    looked_at: set[int] = set()  # aliases of YAML make one object stand in many places
    pending = [item]
    while pending:
        each = pending.pop()
        if id(each) in looked_at:
            continue
        looked_at.add(id(each))
        match each:
            case list() as items:
                pending += items
            case Mapping() as fields:
                pending += [value for key, value in fields.items() if key not in _DATA]
                pointer = fields.get("$ref")
                if isinstance(pointer, str) and pointer not in seen:
                    seen.add(pointer)
                    found = target(pointer, document)
                    if found is None:
                        raise ToolSourceError(f"{place} refers to {pointer:.100}, {_why(pointer)}")
                    pending.append(found)


def _why(pointer: str) -> str:
    return "which is not there" if pointer.startswith("#") else "in another document: make one of them all"
