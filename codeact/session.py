"""Many tasks in one kernel."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self

from codeact import events, exports
from codeact.carried import carried
from codeact.checks import check
from codeact.errors import UsageError
from codeact.models import model_of
from codeact.outcome import Observer, awaited, check_task, consumed
from codeact.run import Run
from codeact.run.between import Undoing
from codeact.turns import Turn, Turns
from codeact.types import Model, Result, T, Usage
from sandbox.given import a


class Session(Generic[T]):
    """One run that does one task after the other, with the variables and files that those before it left.

    Its sandbox is there within a `with` block, or `async with`; without one, from the first use until `close`, or the end of
    the process. May be used from several threads: what one does, the others wait for. Made by `Agent.session`.
    """

    def __init__(
        self,
        run: Run,
        turns: Callable[[Run], Iterator[events.Event]],
        running: Callable[[Run], AbstractContextManager[None]],
    ) -> None:
        self._run, self._turns, self._running = run, turns, running
        self._life = ExitStack()
        self._queue = Turns()
        self._opening = threading.RLock()
        self._open = self._closed = False

    @property
    def id(self) -> str:
        """The id of the run, for `codeact resume` and `codeact show`."""
        return self._run.id

    @property
    def begun(self) -> bool:
        """Whether a task was begun, so that there is a run to look at and to carry on."""
        return self._run.begun

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return self._run.model

    # -- life ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with self._turn():
            return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(
                lambda ended: ended.cancelled() or ended.exception()
            )  # nobody asks for it
            self._closed = True
            try:
                await asyncio.wait([starting])
            finally:
                await asyncio.shield(asyncio.to_thread(self.close))
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.close))

    def close(self) -> None:
        """Ends the session and removes its sandbox. May be called twice, before it was used, and while it starts."""
        with self._opening:
            atexit.unregister(self.close)
            self._open, self._closed = False, True
        self._life.close()

    def _begin(self) -> None:
        """Starts the sandbox, unless it is there."""
        self._check_open()
        if self._open:
            return
        with ExitStack() as life:
            life.enter_context(self._running(self._run))
            life.enter_context(self._run.opened())
            with self._opening:
                self._check_open()  # it may have been closed meanwhile: all is taken down again
                atexit.register(self.close)
                self._life = life.pop_all()
                self._open = True

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the session is closed: make another with `agent.session()`")

    def interrupt(self, end: str = "ended by the person") -> None:
        """Ends the task that is under way, or waits for the sandbox; the session goes on. May be called from any thread."""
        self._run.interrupt(end)

    @contextmanager
    def _turn(self, turn: Turn | None = None, begun: Callable[[], None] = lambda: None) -> Iterator[None]:
        """One use at a time; `begun` is called when it is this one's turn, before the sandbox is started."""
        with self._queue.taken(turn or Turn(), begun):
            self._begin()
            yield

    def _interrupt(self, turn: Turn) -> Callable[[str], None]:
        """Ends the task of this turn, and no other's."""
        return lambda end: self._queue.leave(turn, lambda: self._run.interrupt(end))

    # -- tasks ---------------------------------------------------------------------------------------------------

    def stream(self, task: str) -> Generator[events.Event, None, None]:
        """The events of one task as they happen, `RunEnded` last. Raises as `Agent.stream` does; the session goes on."""
        return self._stream(task, Turn())

    def _stream(self, task: str, turn: Turn) -> Generator[events.Event, None, None]:
        check_task(task)
        with self._turn(turn, self._run.expect):
            yield from self._run.play_next(task, self._turns(self._run))

    def run(self, task: str, *, observers: Sequence[Observer] = ()) -> Result[T]:
        """Runs a task to its end. Its model knows what was said and done before."""
        turn = Turn()
        return consumed(self._run, self._stream(task, turn), self._interrupt(turn), observers)

    def astream(self, task: str) -> AsyncGenerator[events.Event, None]:
        """As `stream`, without blocking the event loop. Whoever stops reading ends the task."""
        turn = Turn()
        return carried(self._stream(task, turn), self._interrupt(turn))

    async def arun(self, task: str, *, observers: Sequence[Observer] = ()) -> Result[T]:
        """As `run`, without blocking the event loop. Cancelling the task that awaits it ends the run's, and where that
        waits for another, it is not begun; the session goes on."""
        turn = Turn()
        return await awaited(self._run, self._stream(task, turn), self._interrupt(turn), observers)

    def undo(self) -> Undoing:
        """Goes back to the state before the last task, which neither the model nor the kernel knows of then: in a fresh sandbox, what
        was done before it is done again, with calls of tools answered from the record. What tools did stands.

        Raises UsageError where there is no task to undo.
        """
        with self._turn():
            return self._run.between.undo()

    def use(self, model: Model | str) -> None:
        """Another model answers from the next task on. Raises UsageError for what is no model, or ModelNotFound."""
        with self._turn():
            self._run.use(model_of(model))

    @property
    def usage(self) -> Usage:
        """What all tasks used so far."""
        return self._run.usage

    def save(self, path: str | Path) -> None:
        """Writes the session so far: as a notebook (`.ipynb`), a page (`.html`), or events (`.jsonl`). Raises UsageError."""
        check("path", path, a(str, Path), 'the path of a file, such as "run.ipynb"')
        with self._turn():
            exports.save(self._run.folder, Path(path))

    # -- variables -----------------------------------------------------------------------------------------------

    def get(self, name: str) -> Any:
        """The value of a variable: a table as its library has it, an array, what JSON has, dates, decimals, bytes; an object with
        fields as a dict with attributes, and a figure as a `Figure`.

        Raises UsageError where there is no such variable, or its value cannot leave the sandbox.
        """
        return self._get(name, Turn())

    def _get(self, name: str, turn: Turn) -> Any:
        check("name", name, a(str), 'the name of a variable, such as "df"')
        with self._turn(turn):
            return self._run.between.get(name)

    def put(self, **values: Any) -> None:
        """Makes variables of values, as `data` does, and tells the model. A Path puts a file into `data/`, by the name given.

        Raises UsageError for what cannot be handed over.
        """
        self._put(values, Turn())

    def _put(self, values: Mapping[str, Any], turn: Turn) -> None:
        with self._turn(turn):
            self._run.between.put(values)

    def add(self, files: Mapping[str, Path]) -> str:
        """Puts files and folders into `data/` by these names, loads what can be loaded, and tells the model; what it is told.

        Raises UsageError for a file that is not there, and for a name that is taken.
        """
        check("files", files, a(Mapping), 'Paths by name, such as {"sales.csv": Path("sales.csv")}')
        with self._turn():
            return self._run.between.put(files)

    def variables(self) -> dict[str, str]:
        """The variables that there are, the last 40, and what each is, such as `DataFrame 120×5: 'city', 'n'`."""
        with self._turn():
            return dict(self._run.between.variables())

    async def aget(self, name: str) -> Any:
        """As `get`, without blocking the event loop."""
        return await self._elsewhere(partial(self._get, name))

    async def aput(self, **values: Any) -> None:
        """As `put`, without blocking the event loop."""
        await self._elsewhere(partial(self._put, values))

    async def _elsewhere(self, use: Callable[[Turn], Any]) -> Any:
        """On another thread; where this is cancelled, it does not begin any more."""
        turn = Turn()
        try:
            return await asyncio.to_thread(use, turn)
        except asyncio.CancelledError:
            self._queue.leave(turn, lambda: None)
            raise
