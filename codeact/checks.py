"""What callers of the library give, checked before anything begins: one line that names it, what it got, and what to give."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from codeact.errors import UsageError
from codeact.options import Options
from codeact.tools.approval import MODES, Approval
from codeact.tools.context import RunContext
from codeact.types import ActionStyle, OnDeath, RunLimits
from sandbox import Pool, given
from sandbox.given import SETTINGS, Check, a, function, one_of, texts
from sandbox.types import parse_size


def check(name: str, value: Any, wrong: Check, instead: str) -> None:
    """Raises UsageError where a value is not what it should be."""
    given.check(name, value, wrong, instead, UsageError)


def check_options(options: Options) -> None:
    """Raises UsageError for an option that is not what `Options` says."""
    for name, value in options.items():
        if name in OPTIONS:
            check(name, value, *OPTIONS[name])


def check_observers(observers: Any) -> None:
    check("observers", observers, _functions, "functions in a list, such as [print]")


def check_context(context: Any) -> None:
    check("context", context, a(RunContext, None), 'who the run is for, as in RunContext(user="ada")')


def _functions(value: Any) -> str | None:
    if not isinstance(value, Iterable) or isinstance(value, str | Mapping):
        return a(list)(value)
    return next(
        (f"has {each!r:.60} in it, which is no function" for each in value if not callable(each)), None
    )


def _permit(value: Any) -> str | None:
    if inspect.iscoroutinefunction(value):  # whose answer would be waited for by nobody
        return "is a coroutine function"
    return None if value is None else function(value)


def _size(value: Any) -> str | None:
    problem = a(int, float, str, None)(value)
    if problem is not None or value is None:
        return problem
    try:
        parse_size(value)
    except ValueError:
        return f"{value!r:.60} is no size"
    return None


def _approve(value: Any) -> str | None:
    if isinstance(value, str) and value not in MODES:
        return f"{value!r:.60} is not known"
    return None if isinstance(value, str | Approval) else function(value)


OPTIONS: Mapping[str, tuple[Check, str]] = {
    "limits": (a(RunLimits, None), "RunLimits, as in RunLimits(turns=20)"),
    "output_schema": (a(dict, None), "a JSON Schema as a dict"),
    **{
        name: SETTINGS[name] for name in ("image", "backend", "runtime", "network", "packages", "on_progress")
    },
    "sandbox_limits": SETTINGS["limits"],
    "cell_timeout": SETTINGS["timeout"],
    "pool": (a(Pool, None), "a sandbox.Pool"),
    "actions": (a(str), " or ".join(get_args(ActionStyle))),
    "parallel_calls": (a(bool), "True or False"),
    "run_python": (a(bool, None), "True or False"),
    "tools_off": (texts, 'paths of tools in a list, such as ["shop.refund"]'),
    "approve": (_approve, f"{', '.join(MODES)}, or a function that is asked"),
    "permit": (_permit, "a plain function that is asked before each call"),
    "context": (a(RunContext, None), 'who the runs are for, as in RunContext(user="ada")'),
    "on_death": one_of(OnDeath),
    "started_with": (a(Mapping, None), "a mapping, whose keys are texts"),
    "out": (a(Path, None), 'a Path, as in Path("out")'),
    "runs": (a(Path, None), 'a Path, as in Path("runs")'),
    "runs_size": (_size, 'bytes, or a text such as "5g", or None for no limit'),
    "show": (a(bool), "True or False"),
}
"""Each option of `Options`, but for `tools`, which is whatever `tools_from` takes, and says what it does not."""
