"""What stands behind a tool on the host, and must not leave it through the tool's errors."""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codeact.tools import record

MAX_SECRET = 16 * 1024
"""Characters of a secret; what is longer is data."""
MAX_ITEMS, MAX_LEVELS = 20, 3
_LONG_SECRET, _SHORT_SECRET = 8, 4
_SECRET_NAME = re.compile(r"auth|key|token|secret|passw|cookie|session|signature", re.IGNORECASE)
_SECRET_ATTRIBUTE = re.compile(
    r"(?:^|_)(?:auth|authorization|api_?key|key|token|secret|password|passwd|passphrase|credentials?)$",
    re.IGNORECASE,
)


def bound(function: Any) -> frozenset[str]:
    """Texts that partials have bound, and that the object behind a method keeps under the name of a secret."""
    values: list[Any] = []
    while isinstance(function, functools.partial):
        values += [*function.args, *function.keywords.values()]
        function = function.func
    return texts(values) | kept(getattr(function, "__self__", function))


def kept(owner: Any) -> frozenset[str]:
    """Texts that an object keeps under the name of a secret, such as `_password` or `api_key`."""
    names = {*dir(type(owner)), *getattr(owner, "__dict__", {})}
    return texts(_attribute(owner, name) for name in names if _SECRET_ATTRIBUTE.search(str(name)))


def _attribute(owner: Any, name: str) -> Any:
    """Without running a property."""
    found = inspect.getattr_static(owner, name, None)
    return getattr(owner, name, None) if isinstance(found, types.MemberDescriptorType) else found


def texts(values: Iterable[Any]) -> frozenset[str]:
    """The texts and bytes in values, as texts, of those that are long enough to be known again."""
    found = (text for value in values for text in _in(value, 0))
    return frozenset(text for text in found if _SHORT_SECRET <= len(text) <= MAX_SECRET)


def _in(value: Any, level: int) -> Iterator[str]:
    if callable(reveal := getattr(value, "get_secret_value", None)) and not isinstance(value, type):
        value = reveal()  # as pydantic wraps secrets
    match value:
        case str() | bytes() | bytearray() if len(value) <= MAX_SECRET:
            yield from record.texts(value)
        case dict() if len(value) <= MAX_ITEMS and level < MAX_LEVELS:
            for each in value.values():
                yield from _in(each, level + 1)
        case list() | tuple() | set() | frozenset() if len(value) <= MAX_ITEMS and level < MAX_LEVELS:
            for each in value:
                yield from _in(each, level + 1)


def secrets(given: Mapping[str, str], own: Mapping[str, str]) -> tuple[str, ...]:
    """Of settings as they were given and as they are used (`own`), what is secret: what the environment brought in, and
    what has such a name; the longest first."""
    found: set[str] = set()
    for name, value in own.items():
        before = given.get(name, "")
        brought_in = before != value
        if brought_in or _SECRET_NAME.search(name):
            least = _SHORT_SECRET if brought_in else _LONG_SECRET
            parts = set(value.split()) - set(before.split() if brought_in else ())
            found |= {part for part in parts if len(part) >= least}
            found |= {value} if len(value) >= _SHORT_SECRET else set()
    return tuple(sorted(found, key=len, reverse=True))
