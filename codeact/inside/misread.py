"""What failing code took a value for that it is not, and where what it wanted is. Names and keys, no values."""

from __future__ import annotations

import ast
import linecache
import re
import types
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

MAX_LOOKED_AT = 200
_NAME_WANTED = re.compile(r"not '?str'?$")


def misread(error: BaseException | None, main: Mapping[str, Any]) -> list[str] | None:
    """Of an error where an item was taken of a variable: its name; what it is, as `text`, `list`, `none`, `dict` of which a slice
    was taken, or `key` of a dict, which is what a loop over the dict gives; for the last two the list that was meant.

    `main` are the variables of the cells. None for other errors, and where the code that failed is not theirs.
    """
    if not isinstance(error, (TypeError, KeyError)):
        return None
    around, last = dict(main), None
    for last in _frames(error):
        around.update(last.tb_frame.f_locals)
    if last is None or last.tb_frame.f_globals is not main:
        return None
    own = {**main, **last.tb_frame.f_locals}
    match _expression(last):
        case ast.Subscript(value=ast.Name(id=name), slice=wanted) if name in own:
            value = own[name]
            if value is None:
                return [name, "none", ""]
            if isinstance(value, dict) and isinstance(wanted, ast.Slice):
                meant = _meant(name, value)
                return None if meant is None else [name, "dict", meant]
            if not _NAME_WANTED.search(str(error)):
                return None
            if isinstance(value, str):
                meant = _looped_over(name, last, around)
                return [name, "text", ""] if meant is None else [name, "key", meant]
            return [name, "list", ""] if isinstance(value, list) else None
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


def _looped_over(name: str, last: types.TracebackType, around: Mapping[str, Any]) -> str | None:
    """The list that was meant where a loop that gives this name its values goes over a dict."""
    try:
        tree = ast.parse("".join(linecache.getlines(last.tb_frame.f_code.co_filename)))
    except SyntaxError:  # of IPython's
        return None
    for node in ast.walk(tree):
        match node:
            case (ast.For() | ast.comprehension()) as loop:
                match loop.target, loop.iter:
                    case ast.Name(id=target), ast.Name(id=over) if target == name:
                        if type(around.get(over)) is dict:
                            return _meant(over, around[over])
    return None


def _meant(path: str, value: Mapping[Any, Any]) -> str | None:
    """The list in a dict: of dicts, if there is one, and never an empty one."""
    lists = [(key, item) for key, item in islice(value.items(), MAX_LOOKED_AT) if type(item) is list and item]
    key = next((key for key, item in lists if type(item[0]) is dict), lists[0][0] if lists else None)
    return None if key is None else f"{path}[{key!r}]"
