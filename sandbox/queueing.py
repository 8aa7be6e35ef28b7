"""Who may start a sandbox now: a queue that all processes of a user on this machine stand in, first come, first served.

A place in the queue is a file that its owner holds a lock on, named by when it came: a process that dies gives its place
up. The first `PLACES` may go on, until they leave.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from platformdirs import user_cache_path

from sandbox.errors import SandboxClosed, StartError
from sandbox.held import hold, remove_unheld

PLACES = max(2, os.cpu_count() or 1)
"""Starts at one moment: more would only make each of them slower, and an engine that is flooded refuses some."""
LONGEST_WAIT = 300.0
_LOOK_SECONDS = 0.02
_numbers = itertools.count()


@contextlib.contextmanager
def turn_to_start(engine: str, given_up: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Waits for the turn to start something on an engine, and holds it. `given_up` ends the wait.

    Raises SandboxClosed when given up, and StartError after `LONGEST_WAIT` seconds.
    """
    folder = _folder() / hashlib.sha256(engine.encode()).hexdigest()[:12]
    try:
        ticket, descriptor = _stand_in_line(folder)
    except OSError:  # no cache to write to, or no space: nobody waits
        yield
        return
    try:
        _wait(ticket, given_up)
        yield
    finally:
        ticket.unlink(missing_ok=True)
        os.close(descriptor)


def sweep() -> int:
    """Removes the places of processes that were killed while they started something; how many."""
    return sum(map(remove_unheld, _folder().glob("*/*")))


def _folder() -> Path:
    return user_cache_path("codeact") / "starting"


def _stand_in_line(folder: Path) -> tuple[Path, int]:
    """A ticket, and the descriptor that holds it.

    One at a time: else one who comes late with an early number goes before those who are in already, and there are too many.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(folder):
        while True:
            ticket = folder / f"{time.monotonic_ns():020}-{os.getpid()}-{next(_numbers)}"
            ticket.touch(mode=0o600, exist_ok=False)
            descriptor = hold(ticket)
            if descriptor is not None:
                return ticket, descriptor


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _wait(ticket: Path, given_up: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not _is_first(ticket):
        if given_up():
            raise SandboxClosed("this sandbox was closed while it waited to be started")
        if time.monotonic() > deadline:
            raise StartError(
                f"the sandbox was not started: {PLACES} others have been starting for {LONGEST_WAIT:.0f} s; "
                "see whether the engine still answers with `codeact doctor`"
            )
        time.sleep(_LOOK_SECONDS)


def _is_first(ticket: Path) -> bool:
    """Whether fewer than `PLACES` living ones stand before a ticket."""
    before = 0
    for other in sorted(ticket.parent.iterdir()):
        if other == ticket:
            return True
        before += not remove_unheld(other)
        if before >= PLACES:
            return False
    return True
