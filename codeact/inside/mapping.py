"""`tool.map(items)`: one call for each item, some at once, results in order."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, Literal

from .toolerrors import CallCancelled, ToolErrors

MAX_CONCURRENCY = 32
QUIET_SECONDS = 5.0
"""Seconds after which it says how far it is, once."""


def run(
    function: Callable[..., Any],
    *items: Iterable[Any],
    concurrency: int = 8,
    errors: Literal["raise", "return"] = "raise",
    **fixed: Any,
) -> list[Any]:
    """Calls the tool with each item, `concurrency` at once, and returns the results in the items' order.

    With several iterables each call takes one item of each. `fixed` are arguments by name that all calls share. All
    calls are made; if some failed, ToolErrors is raised at the end, whose `results` has what succeeded; with
    `errors="return"` the exceptions are in the list instead.
    """
    if not items:
        raise TypeError("map() takes the items to call the tool with")
    if errors not in ("raise", "return"):
        raise ValueError(f"errors is {errors!r}: write 'raise' or 'return'")
    calls = list(zip(*items, strict=True))
    pool = ThreadPoolExecutor(max(1, min(concurrency, MAX_CONCURRENCY, len(calls) or 1)))
    try:
        futures = [pool.submit(function, *given, **fixed) for given in calls]
        _watch(futures, getattr(function, "__name__", "map"))
        results = [future.exception() or future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    failed = [future.exception() for future in futures if future.exception() is not None]
    if failed and errors == "raise":
        raise _group(failed, results)
    return results


def _watch(futures: list[Future[Any]], name: str) -> None:
    """Waits for all; a cell that ended ends the waiting."""
    began, told = time.monotonic(), False
    for done, future in enumerate(as_completed(futures), 1):
        error = future.exception()
        if error is not None and (isinstance(error, CallCancelled) or not isinstance(error, Exception)):
            raise error
        taken, left = time.monotonic() - began, len(futures) - done
        if not told and left and taken >= QUIET_SECONDS:
            told = True
            said = f"{done} of {len(futures)} after {taken:.0f} s, about {taken / done * left:.0f} s more"
            print(f"{name}.map: {said}", file=sys.stderr)


def _group(failed: list[Any], results: list[Any]) -> ToolErrors:
    first = failed[0]
    group = ToolErrors(
        f"{len(failed)} of {len(results)} calls failed, the first with {type(first).__name__}: {first}; "
        "what succeeded is in .results",
        failed,
    )
    group.results = results
    return group
