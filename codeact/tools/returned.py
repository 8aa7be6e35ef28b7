"""Results of calls as text, for a model that called a tool itself: JSON, or text as it is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from codeact.errors import ToolError
from codeact.inside import large, values
from codeact.tools.arguments import Wrong
from codeact.tools.crossing import answer_of
from codeact.tools.plain import plain

_TOO_LONG = 10**values.MAX_DIGITS


def text(result: Any) -> str:
    """What a call came to: what `ToolRunner.call` returns, whether it was made now or answered from a record."""
    if isinstance(result, Iterator):
        return _json([_value(item) for item in result])
    value = _value(result)
    return value if isinstance(value, str) else _json(value)


def error_text(name: str, message: str) -> str:
    """A call that failed: the class of the error and the words that code would see."""
    return _json({"error": {"type": name, "message": message}})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _value(encoded: Any) -> Any:
    """An encoded result as JSON; what JSON has not, by what it is."""
    try:
        answer = answer_of(encoded)
        found = values.decode(answer.value, answer.buffers, other=_in_a_file)
    except (ToolError, values.BadValue) as error:
        return f"({error})"
    return _plain(found)


def _in_a_file(made: Mapping[str, Any]) -> str:
    """A result that was too large for one call."""
    if made.get(values.TAG) != large.TAG:
        raise values.BadValue("a result is of no type that is known")
    place = values.WORKSPACE / str(made.get("path"))
    return f"({made.get('what')} of {made.get('bytes', 0):,} bytes in {place}, which begins: {made.get('preview')})"


def _plain(value: Any) -> Any:
    match value:
        case int() if abs(value) >= _TOO_LONG:
            # Python refuses to write out much longer ones, and readers of JSON to take them
            return f"(an integer of {value.bit_length():,} bits)"
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return f"({len(value):,} bytes)"
        case dict():
            return {_key(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
    records = getattr(value, "to_dict", None)
    if callable(records) and hasattr(value, "columns"):
        return _plain(records("records"))
    try:
        found = plain(value)
    except Wrong:
        return str(value)
    return _plain(found)


def _key(key: Any) -> str:
    return str(_plain(key) if isinstance(key, int) else key)
