"""What callers give, checked before anything begins: one line that names it, says what it is, and what to give instead."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from sandbox.hostcalls import WithCall
from sandbox.network import Network
from sandbox.types import BackendName, Limits

Check = Callable[[Any], str | None]
"""What is wrong with a value, in words that follow its name; None where nothing is."""


def check(name: str, value: Any, wrong: Check, instead: str, error: type[Exception] = ValueError) -> None:
    """Raises `error` where a value is not what it should be."""
    problem = wrong(value)
    if problem is not None:
        raise error(f"{name}: {problem}; give {instead}")


def check_settings(**settings: Any) -> None:
    """Raises ValueError for a setting that is not what `Sandbox` says."""
    for name, value in settings.items():
        check(name, value, *SETTINGS[name])


def read_once(value: Any) -> Any:
    """What can be read only once, a generator, as what was read: it is checked, and then used."""
    return tuple(value) if isinstance(value, Iterator) else value


def check_code(code: Any, timeout: Any, max_timeout: Any) -> None:
    """Raises ValueError where this is no cell, or no time for one."""
    check("code", code, a(str), "Python as a text")
    check("timeout", timeout, _some_seconds, "seconds, such as 60")
    check("max_timeout", max_timeout, _some_seconds, "seconds, such as 60")


def a(*kinds: type | None) -> Check:
    """Objects of these classes; None in their place stands for None."""
    known = tuple(type(None) if kind is None else kind for kind in kinds)

    def wrong(value: Any) -> str | None:
        # True is an int to Python, and no number to a person
        fits = isinstance(value, known) and (type(value) is not bool or bool in known)
        return None if fits else f"is of type {type(value).__name__}"

    return wrong


def one_of(kind: Any) -> tuple[Check, str]:
    names = get_args(kind)

    def wrong(value: Any) -> str | None:
        return a(str)(value) or (None if value in names else f"{value!r:.60} is not known")

    return wrong, " or ".join(names)


def text(value: Any) -> str | None:
    return a(str)(value) or (None if value.strip() else "is empty")


def texts(value: Any) -> str | None:
    if isinstance(value, str):  # which is a sequence too, of letters
        return "is a text"
    if not isinstance(value, Iterable):
        return a(list)(value)
    return next(
        (f"has {each!r:.60} in it, which is no text" for each in value if type(each) is not str), None
    )


def function(value: Any) -> str | None:
    return None if callable(value) else f"is of type {type(value).__name__}"


def seconds(value: Any) -> str | None:
    return a(int, float)(value) or (None if 0 < value <= sys.float_info.max else f"is {value!s:.60}")


def _some_seconds(value: Any) -> str | None:
    too_many = type(value) is int and value > sys.float_info.max
    return a(int, float, None)(value) or (f"is {value!s:.60}" if too_many else None)


def network(value: Any) -> str | None:
    if value is None or isinstance(value, Network):
        return None
    problem = None if isinstance(value, str) else texts(value)
    try:
        Network.parse(() if problem else value)
    except ValueError as error:
        return str(error)
    return problem


def _most_seconds(value: Any) -> str | None:
    return None if value is None or value == math.inf else seconds(value)


def _each(wrong: Check) -> Check:
    """A mapping from texts to values that fit."""

    def found(value: Any) -> str | None:
        if value is None or not isinstance(value, Mapping):
            return a(Mapping, None)(value)
        for name, each in value.items():
            if problem := a(str)(name) or wrong(each):
                return f"{name!r:.60} {problem}"
        return None

    return found


def _host_function(value: Any) -> str | None:
    return None if isinstance(value, WithCall) else function(value)


SETTINGS: Mapping[str, tuple[Check, str]] = {
    "image": (text, 'the name of an image, such as "data"'),
    "limits": (a(Limits, None), 'Limits, as in Limits(memory="2g")'),
    "timeout": (seconds, "seconds above 0, such as 60"),
    "max_timeout": (_most_seconds, "seconds above 0, such as 60"),
    "network": (network, 'host names, such as ["api.example.com"], or None'),
    "on_connection": (function, "a function that takes a connection"),
    "packages": (texts, 'names of packages in a list, such as ["humanize"]'),
    "on_progress": (function, "a function that takes a line"),
    "inputs": (_each(a(Path)), 'Paths by name, as in {"sales.csv": Path("sales.csv")}'),
    "functions": (_each(_host_function), "functions by name"),
    "runtime": (a(str, None), 'the name of a runtime of the engine, such as "runsc"'),
    "label": (a(str), "a text"),
    "backend": one_of(BackendName),
}
"""Each setting of `Sandbox`."""
