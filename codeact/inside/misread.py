"""What failing code took a value for that it is not, and where what it wanted is. Names and keys, no values."""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

MAX_LOOKED_AT = 200


def misread(error: BaseException | None, main: Mapping[str, Any]) -> list[str] | None:
    """Of an error where an item was taken of a variable: its name; what it is, as `text`, `list`, `none`, `dict` of which a slice
    was taken, or `key` of a dict, which is what a loop over the dict gives; for the last two the list that was meant.

    `main` are the variables of the cells. None for other errors, and where the code that failed is not theirs.
    """
    if not isinstance(error, (TypeError, KeyError)):
        return None
    space, last = dict(main), None
    for last in _frames(error):
        space.update(last.tb_frame.f_locals)
    if last is None or last.tb_frame.f_globals is not main:
        return None
    match _expression(last):
        case ast.Subscript(value=ast.Name(id=name), slice=wanted) if name in space:
            told = _told(space[name], isinstance(wanted, ast.Slice), space, name)
            return None if told is None else [name, *told]
    return None


def _frames(error: BaseException) -> Iterator[types.TracebackType]:
    at = error.__traceback__
    while at is not None:
        yield at
        at = at.tb_next


def _expression(last: types.TracebackType) -> ast.expr | None:
    """The expression that raised."""
    code = last.tb_frame.f_code
    if not hasattr(code, "co_positions"):  # before Python 3.11
        return None
    first, end, start, stop = next(islice(code.co_positions(), last.tb_lasti // 2, None))
    if first is None or end is None or start is None or stop is None:
        return None
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : end]]
    if not lines:
        return None
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return None


def _told(value: Any, sliced: bool, space: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    match value:
        case None:
            return "none", ""
        case str():
            meant = next(_lists_beside(value, space), None)
            return ("text", "") if meant is None else ("key", meant)
        case list() | tuple():
            return "list", ""
        case dict() if sliced and (meant := next(_lists(name, value), None)) is not None:
            return "dict", meant
    return None


def _lists(path: str, value: Mapping[Any, Any]) -> Iterator[str]:
    for key, item in islice(value.items(), MAX_LOOKED_AT):
        if type(item) is list:
            yield f"{path}[{key!r}]"


def _lists_beside(key: str, space: Mapping[str, Any]) -> Iterator[str]:
    """The lists in the dicts that have a key."""
    for name, value in islice(space.items(), MAX_LOOKED_AT):
        if type(value) is dict and name[:1] != "_" and key in value:
            yield from _lists(name, value)
