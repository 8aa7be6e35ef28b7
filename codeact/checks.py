"""What callers of the library give, checked before anything begins: one line that names it, what it got, and what to give."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from codeact.errors import UsageError
from codeact.options import Options
from codeact.tools.approval import MODES, Approval
from codeact.tools.context import RunContext
from codeact.types import ActionStyle, OnDeath, RunLimits
from sandbox import Limits, Network, Pool
from sandbox.types import BackendName, parse_size

Check = Callable[[Any], str | None]
"""What is wrong with a value, in words that follow its name; None where nothing is."""


def check(name: str, value: Any, wrong: Check, instead: str) -> None:
    """Raises UsageError where a value is not what it should be."""
    problem = wrong(value)
    if problem is not None:
        raise UsageError(f"{name}: {problem}; give {instead}")


def check_options(options: Options) -> None:
    """Raises UsageError for an option that is not what `Options` says."""
    for name, value in options.items():
        if name in OPTIONS:
            check(name, value, *OPTIONS[name])


def check_observers(observers: Any) -> None:
    check("observers", observers, _functions, "functions in a list, such as [print]")


def check_context(context: Any) -> None:
    check("context", context, a(RunContext, None), 'who the run is for, as in RunContext(user="ada")')


def a(*kinds: type | None) -> Check:
    """Objects of these classes; None in their place stands for None."""
    known = tuple(type(None) if kind is None else kind for kind in kinds)

    def wrong(value: Any) -> str | None:
        # True is an int to Python, and no number to a person
        fits = isinstance(value, known) and (type(value) is not bool or bool in known)
        return None if fits else f"is of type {type(value).__name__}"

    return wrong


def _one_of(kind: Any) -> tuple[Check, str]:
    names = get_args(kind)

    def wrong(value: Any) -> str | None:
        return a(str)(value) or (None if value in names else f"{value!r:.60} is not known")

    return wrong, " or ".join(names)


def _text(value: Any) -> str | None:
    return a(str)(value) or (None if value.strip() else "is empty")


def _texts(value: Any) -> str | None:
    if isinstance(value, str):  # which is a sequence too, of letters
        return "is a text"
    if not isinstance(value, Iterable):
        return a(list)(value)
    return next(
        (f"has {each!r:.60} in it, which is no text" for each in value if type(each) is not str), None
    )


def _functions(value: Any) -> str | None:
    if not isinstance(value, Iterable) or isinstance(value, str | Mapping):
        return a(list)(value)
    return next(
        (f"has {each!r:.60} in it, which is no function" for each in value if not callable(each)), None
    )


def _function(value: Any) -> str | None:
    return None if callable(value) else f"is of type {type(value).__name__}"


def _permit(value: Any) -> str | None:
    if inspect.iscoroutinefunction(value):  # whose answer would be waited for by nobody
        return "is a coroutine function"
    return None if value is None else _function(value)


def _seconds(value: Any) -> str | None:
    return a(int, float)(value) or (None if 0 < value < math.inf else f"is {value}")


def _size(value: Any) -> str | None:
    problem = a(int, float, str, None)(value)
    if problem is not None or value is None:
        return problem
    try:
        parse_size(value)
    except ValueError:
        return f"{value!r:.60} is no size"
    return None


def _network(value: Any) -> str | None:
    if value is None or isinstance(value, Network):
        return None
    problem = None if isinstance(value, str) else _texts(value)
    try:
        Network.parse(() if problem else value)
    except ValueError as error:
        return str(error)
    return problem


def _approve(value: Any) -> str | None:
    if isinstance(value, str) and value not in MODES:
        return f"{value!r:.60} is not known"
    return None if isinstance(value, str | Approval) else _function(value)


OPTIONS: Mapping[str, tuple[Check, str]] = {
    "limits": (a(RunLimits, None), "RunLimits, as in RunLimits(turns=20)"),
    "output_schema": (a(dict, None), "a JSON Schema as a dict"),
    "image": (_text, 'the name of an image, such as "data"'),
    "sandbox_limits": (a(Limits, None), 'Limits, as in Limits(memory="2g")'),
    "cell_timeout": (_seconds, "seconds above 0, such as 60"),
    "backend": _one_of(BackendName),
    "runtime": (a(str, None), 'the name of a runtime of the engine, such as "runsc"'),
    "network": (_network, 'host names, such as ["api.example.com"], or None'),
    "packages": (_texts, 'names of packages in a list, such as ["humanize"]'),
    "pool": (a(Pool, None), "a sandbox.Pool"),
    "actions": (a(str), " or ".join(get_args(ActionStyle))),
    "parallel_calls": (a(bool), "True or False"),
    "run_python": (a(bool, None), "True or False"),
    "tools_off": (_texts, 'paths of tools in a list, such as ["shop.refund"]'),
    "approve": (_approve, f"{', '.join(MODES)}, or a function that is asked"),
    "permit": (_permit, "a plain function that is asked before each call"),
    "context": (a(RunContext, None), 'who the runs are for, as in RunContext(user="ada")'),
    "on_death": _one_of(OnDeath),
    "started_with": (a(Mapping, None), "a mapping, whose keys are texts"),
    "on_progress": (_function, "a function that takes a line"),
    "out": (a(Path, None), 'a Path, as in Path("out")'),
    "runs": (a(Path, None), 'a Path, as in Path("runs")'),
    "runs_size": (_size, 'bytes, or a text such as "5g", or None for no limit'),
    "show": (a(bool), "True or False"),
}
"""Each option of `Options`, but for `tools`, which is whatever `tools_from` takes, and says what it does not."""
