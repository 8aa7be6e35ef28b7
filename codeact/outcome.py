"""Reading a stream of events to its end, for what the task came to."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from codeact import events
from codeact.carried import carried
from codeact.checks import check_observers
from codeact.errors import CodeActError, UsageError
from codeact.run import Run
from codeact.types import Result
from codeact.views import notebook
from sandbox import SandboxError

Observer = Callable[[events.Event], None]
"""Gets each event as it happens; may not change the run."""
Stream = Generator[events.Event, None, None]


def check_task(task: str) -> None:
    """Raises UsageError for a task that is no text, or says nothing."""
    if not isinstance(task, str):
        raise UsageError(f"task: is of type {type(task).__name__}; give a text that says what is to be done")
    if not task.strip():
        raise UsageError("the task is empty: say what is to be found out or done")


def consumed(
    run: Run, stream: Stream, interrupt: Callable[[str], None], observers: Sequence[Observer]
) -> Result[Any]:
    """A task to its end, drawn in a notebook, where the person may `interrupt` it. What keeps it from beginning is raised;
    later, it is in the result."""
    check_observers(observers)
    if run.shown and notebook.here():
        from codeact.views.notebook import live

        stream = live.drawn(stream, interrupt)
    seen: list[events.Event] = []
    try:
        with _in_the_result(seen):
            for event in stream:
                _see(event, seen, observers)
    finally:
        stream.close()  # now: whoever catches what an observer raised, or Ctrl-C did, may keep this frame for long
    return run.result(seen)


async def awaited(
    run: Run, stream: Stream, interrupt: Callable[[str], None], observers: Sequence[Observer]
) -> Result[Any]:
    """As `consumed`, in the running event loop."""
    check_observers(observers)
    seen: list[events.Event] = []
    carrying = carried(stream, interrupt)
    if run.shown and notebook.here():
        from codeact.views.notebook import live

        carrying = live.adrawn(carrying)
    try:
        with _in_the_result(seen):
            async for event in carrying:
                _see(event, seen, observers)
    finally:
        await carrying.aclose()
    return run.result(seen)


def _see(event: events.Event, seen: list[events.Event], observers: Sequence[Observer]) -> None:
    seen.append(event)
    for observer in observers:
        observer(event)


@contextmanager
def _in_the_result(seen: Sequence[events.Event]) -> Iterator[None]:
    try:
        yield
    except (CodeActError, SandboxError):
        if not seen or not isinstance(seen[-1], events.RunEnded):
            raise
