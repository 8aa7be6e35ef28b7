"""Many tasks in one kernel."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Any, Generic, Self

from codeact import events
from codeact.carried import carried
from codeact.errors import UsageError
from codeact.outcome import Observer, awaited, check_task, consumed
from codeact.run import Run
from codeact.types import Result, T


class Session(Generic[T]):
    """One run that does one task after the other, with the variables and files that those before it left.

    Its sandbox is there within a `with` block, or `async with`. May be used from several threads: what one does, the others
    wait for. Made by `Agent.session`.
    """

    def __init__(
        self,
        run: Run,
        turns: Callable[[Run], Iterator[events.Event]],
        running: Callable[[Run], AbstractContextManager[None]],
    ) -> None:
        self._run, self._turns, self._running = run, turns, running
        self._life = ExitStack()
        self._lock = threading.Lock()
        self._user: int | None = None
        self._open = False

    @property
    def id(self) -> str:
        """The id of the run, for `codeact resume` and `codeact show`."""
        return self._run.id

    # -- life ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with self._life:
            self._life.enter_context(self._running(self._run))
            self._life.enter_context(self._run.opened())
            self._life = self._life.pop_all()
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.close))

    def close(self) -> None:
        """Ends the session and removes its sandbox. May be called twice."""
        self._open = False
        self._life.close()

    def interrupt(self, end: str = "ended by the person") -> None:
        """Ends the task that is under way; the session goes on. May be called from any thread."""
        self._run.interrupt(end)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One use at a time."""
        me = threading.get_ident()
        if self._user == me:
            raise UsageError("a task of this session is under way: read its events to the end first")
        with self._lock:
            if not self._open:
                raise UsageError("the session is not open: use it in a `with` block")
            self._user = me
            try:
                yield
            finally:
                self._user = None

    # -- tasks ---------------------------------------------------------------------------------------------------

    def stream(self, task: str) -> Generator[events.Event, None, None]:
        """The events of one task as they happen, `RunEnded` last. Raises as `Agent.stream` does; the session goes on."""
        check_task(task)
        with self._turn():
            yield from self._run.play_next(task, self._turns(self._run))

    def run(self, task: str, *, observers: Sequence[Observer] = ()) -> Result[T]:
        """Runs a task to its end. Its model knows what was said and done before."""
        return consumed(self._run, self.stream(task), observers)

    def astream(self, task: str) -> AsyncGenerator[events.Event, None]:
        """As `stream`, without blocking the event loop. Whoever stops reading ends the task."""
        return carried(self.stream(task), self._run.interrupt)

    async def arun(self, task: str, *, observers: Sequence[Observer] = ()) -> Result[T]:
        """As `run`, without blocking the event loop. Cancelling the task that awaits it ends the run's; the session goes on."""
        return await awaited(self._run, self.stream(task), observers)

    # -- variables -----------------------------------------------------------------------------------------------

    def get(self, name: str) -> Any:
        """The value of a variable: a table as its library has it, an array, what JSON has, dates, decimals, bytes; an object with
        fields as a dict with attributes, and a figure as a `Figure`.

        Raises UsageError where there is no such variable, or its value cannot leave the sandbox.
        """
        with self._turn():
            return self._run.get(name)

    def put(self, **values: Any) -> None:
        """Makes variables of values, as `data` does, and tells the model. A Path puts a file into `data/`, by the name given.

        Raises UsageError for what cannot be handed over.
        """
        with self._turn():
            self._run.put(values)

    async def aget(self, name: str) -> Any:
        """As `get`, without blocking the event loop."""
        return await asyncio.to_thread(self.get, name)

    async def aput(self, **values: Any) -> None:
        """As `put`, without blocking the event loop."""
        await asyncio.to_thread(self.put, **values)
