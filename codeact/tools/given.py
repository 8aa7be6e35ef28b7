"""What is given as an option of a tool: of the right type and in its range, or one line that says what it takes."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from typing import Any

from codeact.errors import ToolSourceError
from codeact.tools.shown import short


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_seconds(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and float(value) > 0


def _is_rate(value: Any) -> bool:
    return _is_seconds(value) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 0


def _are(what: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def are(value: Any) -> bool:
        listed = isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))
        return listed and all(map(what, value))

    return are


def _is_error(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, type) and issubclass(value, BaseException))


def _are_texts_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(each, str) for pair in value.items() for each in pair
    )


_TAKES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_is_text, "a text, such as 'order_status'"),
    "namespace": (_is_text, "a text, such as 'shop'"),
    "description": (_is_text, "a text"),
    "base_url": (_is_text, "a text, such as 'https://api.example.com'"),
    "effects": (lambda value: value in ("read", "write", "dangerous"), "'read', 'write' or 'dangerous'"),
    "where": (lambda value: value in ("host", "sandbox"), "'host' or 'sandbox'"),
    "timeout": (_is_seconds, "seconds, a number above 0, or math.inf for none"),
    "per_minute": (_is_rate, "a number above 0"),
    "idempotent": (lambda value: isinstance(value, bool), "True or False"),
    "retries": (_is_count, "a whole number from 0"),
    "calls": (_is_count, "a whole number from 0"),
    "secret": (_are(_is_text), "a list of parameters, as in ['password']"),
    "raises": (_are(_is_error), "a list of exceptions or their names, as in ['KeyError']"),
    "headers": (_are_texts_by_name, "texts by name, as in {'Authorization': 'Bearer ${TOKEN}'}"),
    "query": (_are_texts_by_name, "texts by name, as in {'key': '${KEY}'}"),
}


def check(what: str, **options: Any) -> None:
    """Raises ToolSourceError for the first option of `what` that does not fit. None stands for what is not said."""
    for name, value in options.items():
        fits, takes = _TAKES[name]
        if value is not None and not _safely(fits, value):
            raise ToolSourceError(f"{name} of {what} is {short(value)}; it takes {takes}")


def _safely(fits: Callable[[Any], bool], value: Any) -> bool:
    try:
        return bool(fits(value))
    except Exception:  # noqa: BLE001 - code of whoever made the value, such as an array that is neither true nor false
        return False


def seconds(value: float | None) -> float | None:
    """A limit of time as clocks take it: None for none, and for more than they can count."""
    return None if value is None or value >= threading.TIMEOUT_MAX else value
