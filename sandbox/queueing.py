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
        place = _stand_in_line(folder)
    except OSError:  # no cache to write to, or no space: who starts alone needs no queue
        yield
        return
    with place as ticket:
        _wait(folder, ticket, given_up)
        yield


def sweep() -> int:
    """Removes what killed processes left of their places; how many that were."""
    removed = 0
    for file in _folder().glob("*/*"):
        draft = file.name.startswith(
            "."
        )  # of a process that was killed before it had locked it, or is about to
        left = not Path("/proc", file.name[1:].partition("-")[0]).exists() if draft else not _lives(file)
        if left:
            file.unlink(missing_ok=True)
            removed += 1
    return removed


def _folder() -> Path:
    return user_cache_path("codeact") / "starting"


@contextlib.contextmanager
def _held(path: Path, descriptor: int) -> Iterator[Path]:
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _stand_in_line(folder: Path) -> contextlib.AbstractContextManager[Path]:
    """A ticket: it has its name only once it is locked, so that no one takes it for a dead process's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{os.getpid()}-{next(_numbers)}"
    draft = folder / f".{name}"
    descriptor = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        ticket = draft.rename(folder / f"{time.monotonic_ns():020}-{name}")
    except BaseException:
        draft.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return _held(ticket, descriptor)


def _wait(folder: Path, ticket: Path, given_up: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not _is_first(folder, ticket):
        if given_up():
            raise SandboxClosed("this sandbox was closed while it waited to be started")
        if time.monotonic() > deadline:
            raise StartError(
                f"the sandbox was not started: {PLACES} others have been starting for {LONGEST_WAIT:.0f} s; "
                "see whether the engine still answers with `codeact doctor`"
            )
        time.sleep(_LOOK_SECONDS)


def _is_first(folder: Path, ticket: Path) -> bool:
    """Whether fewer than `PLACES` living ones stand before a ticket."""
    before = 0
    for other in sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".")):
        if other == ticket:
            return True
        before += _lives(other)
        if before >= PLACES:
            return False
    return True


def _lives(ticket: Path) -> bool:
    """Whether somebody holds a ticket; one that nobody does is removed."""
    try:
        descriptor = os.open(ticket, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        ticket.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)
