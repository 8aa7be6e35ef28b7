"""Suites of tasks: each a function that returns its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from benchmarks.suites import messy, small_tasks, toolworld
from benchmarks.suites.adapters import dabench, services, spider, wtq
from benchmarks.suites.base import Task
from codeact.errors import UsageError

Split = Literal["dev", "test"]
OWN: Mapping[str, Callable[[Split, int | None], list[Task]]] = {
    "toolworld": lambda split, seed: list(toolworld.suite(split, seed)),
    "small-tasks": lambda split, seed: small_tasks.suite(),
    "messy": lambda split, seed: messy.suite(),
}
"""Suites that need nothing else, by name; what has no splits gives all its tasks for both."""
FOREIGN: Mapping[str, Callable[[Path, int | None], list[Task]]] = {
    "dabench": dabench.suite,
    "wtq": wtq.suite,
    "spider": spider.suite,
    services.BFCL: services.bfcl,
    services.TAU2: services.tau2,
    services.M3: services.m3,
    services.M3_ORIGINAL: services.m3_original,
}
"""Suites of others, which read what the user has at a path; the number is the seed of a sample."""


def suite(
    name: str, split: Split = "test", seed: int | None = None, path: Path | None = None
) -> tuple[Task, ...]:
    """The tasks of a suite, the same for the same arguments. Raises UsageError for what cannot be had."""
    if name in OWN:
        return tuple(OWN[name](split, seed))
    if name not in FOREIGN:
        raise UsageError(f"there is no suite {name!r}; there are {', '.join(sorted({*OWN, *FOREIGN}))}")
    if path is None:
        raise UsageError(
            f"the suite {name} is not part of this project: give the path of your copy with --path"
        )
    try:
        return tuple(FOREIGN[name](path, seed))
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UsageError(f"{path}: this copy of {name} is not of the form that it has: {said}") from error
