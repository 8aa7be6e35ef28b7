"""Warm sandboxes: started before anybody asks, each handed to one user, and destroyed when that one closes it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, Unpack

from sandbox.errors import PoolClosed, SandboxError, StartError
from sandbox.files import files_below, unread
from sandbox.given import check_settings, read_once
from sandbox.hostcalls import HostFunction, WithCall
from sandbox.network import Network
from sandbox.session import Sandbox
from sandbox.types import BackendName, Connection, Limits

STARTERS = 2
"""Sandboxes of one pool that start at the same moment."""
PROBE_PERIOD = 15.0
"""Seconds after which an idle kernel is asked again whether it answers."""
PROBE_SECONDS = 5.0
OLDEST = 3600.0
"""Seconds after which an idle sandbox is replaced, long before its expiry lets others remove it."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until the next attempt after a start that failed: twice as many each time."""
WARM_INPUTS = 32 * 1024 * 1024
"""Bytes of inputs up to which they are sent into a warm sandbox; larger ones are mounted in one that is started for them."""
CLOSERS = 8
START_OVER = "__import__('sandbox_guest.numbering').numbering.start_over()"


class Settings(TypedDict, total=False):
    """Settings of `Sandbox` that all sandboxes of a pool share."""

    limits: Limits
    timeout: float
    max_timeout: float
    network: str | Iterable[str] | Network | None
    packages: Iterable[str]
    on_progress: Callable[[str], None]
    runtime: str | None
    backend: BackendName


@dataclass(slots=True)
class _Idle:
    box: Sandbox
    started: float
    heard: float
    """When its kernel answered last."""


class Pool:
    """Keeps `size` sandboxes started; `take()` hands one over at once, and the next starts in the background.

    `settings` are those of `Sandbox`. `prepare` is called with each sandbox before it counts as started, to import or write
    what every user needs; its cells leave no trace in the numbers and the history of cells. Neither is done again when
    the kernel of a sandbox dies in its user's hands.

    May be used from many threads: who asks first gets first. `close()`, or the end of a `with` block, ends all sandboxes of
    the pool, those that were taken too.
    """

    def __init__(
        self,
        image: str = "data",
        *,
        size: int = 2,
        prepare: Callable[[Sandbox], None] = lambda box: None,
        **settings: Unpack[Settings],
    ) -> None:
        if size < 1:
            raise ValueError(f"a pool of {size} sandboxes: it must hold at least 1")
        if "packages" in settings:
            settings["packages"] = read_once(settings["packages"])
        if "network" in settings:
            settings["network"] = read_once(settings["network"])
        check_settings(image=image, **settings)
        self.image = image
        self.size = size
        self._prepare = prepare
        self._settings = settings
        self._make = partial(Sandbox, image, **settings)
        self._changed = threading.Condition()
        self._idle: deque[_Idle] = deque()
        self._queue: deque[object] = deque()
        self._under_way: set[Sandbox] = set()
        self._taken: list[Sandbox] = []
        self._failure: SandboxError | None = None
        self._failures = 0
        self._next_start = 0.0
        self._closed = False
        workers = [self._start_on] * min(STARTERS, size) + [self._look_after]
        self._threads = [threading.Thread(target=work, name="sandbox-pool", daemon=True) for work in workers]
        for thread in self._threads:
            thread.start()

    @property
    def settings(self) -> Settings:
        """The settings of its sandboxes, as they were given."""
        return self._settings

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until `size` sandboxes are ready; whether they are after `timeout` seconds. Raises as `take` does."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._idle) >= self.size or self._over(), timeout)
            self._raise_if_over()
            return len(self._idle) >= self.size

    def take(
        self,
        *,
        inputs: Mapping[str, Path] | None = None,
        functions: Mapping[str, HostFunction | WithCall] | None = None,
        on_connection: Callable[[Connection], None] = lambda connection: None,
        label: str = "",
    ) -> Sandbox:
        """A started sandbox that nobody used before; whoever takes it closes it. Waits for one where none is ready.

        The arguments are this user's, as `Sandbox` takes them. Inputs are sent into the workspace; where they are large, a
        sandbox is started for them instead, with the inputs mounted. Raises PoolClosed, StartError when the last start
        failed (the pool tries again, with pauses), and FileError for inputs.
        """
        if inputs and _size(inputs.values()) > WARM_INPUTS:
            return self._start_cold(inputs, functions or {}, on_connection, label)
        box = self._next()
        try:
            box.hand_over(
                inputs=inputs or {}, functions=functions or {}, on_connection=on_connection, label=label
            )
        except BaseException:
            box.close()
            raise
        return box

    def close(self) -> None:
        """Ends all sandboxes of the pool, at the same time. May be called twice."""
        with self._changed:
            self._closed = True
            boxes = [*(idle.box for idle in self._idle), *self._under_way, *self._taken]
            self._idle.clear()
            self._taken.clear()
            self._changed.notify_all()
        if boxes:
            with ThreadPoolExecutor(min(CLOSERS, len(boxes))) as closers:
                list(closers.map(Sandbox.close, boxes))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    # -- handing over --------------------------------------------------------------------------------------------

    def _next(self) -> Sandbox:
        while True:
            idle = self._first()
            if _well(idle.box):  # some milliseconds, against one whose end nobody has noticed yet
                return idle.box
            idle.box.close()

    def _first(self) -> _Idle:
        turn = object()
        with self._changed:
            self._queue.append(turn)
            try:
                self._changed.wait_for(lambda: self._over() or (self._queue[0] is turn and self._idle))
                self._raise_if_over()
                idle = self._idle.popleft()
                self._note_taken(idle.box)
                return idle
            finally:
                self._queue.remove(turn)
                self._changed.notify_all()

    def _note_taken(self, box: Sandbox) -> None:
        self._taken = [one for one in self._taken if not one.closed]
        self._taken.append(box)

    def _over(self) -> bool:
        return self._closed or (self._failure is not None and not self._idle)

    def _raise_if_over(self) -> None:
        if self._closed:
            raise PoolClosed("this pool is closed; make a new one")
        if self._failure is not None and not self._idle:
            again = max(0.0, self._next_start - time.monotonic())
            raise StartError(
                f"the pool has no sandbox: {self._failure} (tried {self._failures} times, again in {again:.0f} s)"
            ) from self._failure

    def _start_cold(
        self,
        inputs: Mapping[str, Path],
        functions: Mapping[str, HostFunction | WithCall],
        on_connection: Callable[[Connection], None],
        label: str,
    ) -> Sandbox:
        box = self._make(inputs=inputs, functions=functions, on_connection=on_connection, label=label)
        with self._changed:
            self._raise_if_over()
            self._note_taken(box)
        self._start(box)
        return box

    # -- in the background ---------------------------------------------------------------------------------------

    def _start_on(self) -> None:
        """Starts sandboxes as they are wanted, until the pool is closed."""
        while (box := self._wanted()) is not None:
            failure: SandboxError | None = None
            try:
                self._start(box)
            except SandboxError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - of `prepare`, which is the user's: told to whoever takes
                said = " ".join(f"{type(error).__name__}: {error}".split())
                failure = StartError(f"its preparation failed: {said}")
            self._started(box, failure)

    def _wanted(self) -> Sandbox | None:
        """A sandbox to be started, when one is; None once the pool is closed."""
        with self._changed:
            while not self._closed:
                pause = self._next_start - time.monotonic()
                if len(self._idle) + len(self._under_way) >= self.size:
                    self._changed.wait()
                elif pause > 0:
                    self._changed.wait(pause)
                elif self._failure is not None and self._under_way:
                    self._changed.wait()  # while starts fail, one attempt at a time
                else:
                    box = self._make(label="pool")
                    self._under_way.add(box)
                    return box
        return None

    def _start(self, box: Sandbox) -> None:
        try:
            box.start()
            self._prepare(box)
            cell = box.run(START_OVER)
            if cell.status != "ok" or cell.lost:
                raise StartError(f"its kernel did not outlive its preparation: {cell.error or cell.status}")
        except BaseException:
            box.close()
            raise

    def _started(self, box: Sandbox, failure: SandboxError | None) -> None:
        with self._changed:
            self._under_way.discard(box)
            if not self._closed:
                now = time.monotonic()
                if failure is None:
                    self._idle.append(_Idle(box, now, now))
                    self._failures, self._next_start = 0, 0.0
                else:
                    self._next_start = now + min(FIRST_PAUSE * 2**self._failures, LONGEST_PAUSE)
                    self._failures += 1
                self._failure = failure
                box = None  # type: ignore[assignment]
            self._changed.notify_all()
        if box is not None:
            box.close()

    def _look_after(self) -> None:
        """Asks idle kernels whether they answer; those that do not, and the oldest, are replaced."""
        while True:
            with self._changed:
                if self._closed:
                    return
                due = min((idle.heard for idle in self._idle), default=time.monotonic()) + PROBE_PERIOD
                if (left := due - time.monotonic()) > 0:
                    self._changed.wait(left)
                    continue
                idle = min(self._idle, key=lambda idle: idle.heard)
                self._idle.remove(idle)  # nobody gets it in the meantime
                self._under_way.add(idle.box)
            well = time.monotonic() - idle.started < OLDEST and _well(idle.box)
            idle.heard = time.monotonic()
            with self._changed:
                self._under_way.discard(idle.box)
                if kept := well and not self._closed:
                    self._idle.append(idle)
                self._changed.notify_all()
            if not kept:
                idle.box.close()


def _well(box: Sandbox) -> bool:
    with contextlib.suppress(SandboxError):
        return box.answers(PROBE_SECONDS)
    return False


def _size(paths: Iterable[Path]) -> int:
    """Bytes of files, and of folders with all that is in them. Raises FileError."""
    size = 0
    for path in paths:
        try:
            files = [path] if path.is_file() else files_below(path)
            size += sum(file.stat().st_size for file in files)
        except (OSError, ValueError) as error:
            raise unread(path, error) from error
    return size
