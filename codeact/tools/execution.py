"""Runs functions of tools so that whoever waits for one can stop waiting, whatever the function does."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from functools import cache
from typing import Any

from codeact.errors import CallCancelled, CallRefused, ToolTimeout

MAX_ABANDONED = 32
"""Functions that ran out of their time and go on all the same, in one run; at so many no other is started."""
LEFT = "the code waits for it no more"
ENDED = "its cell has ended"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a function came to. `error` is whatever it raised, SystemExit and the like too."""

    value: Any = None
    error: BaseException | None = None


@cache
def loop() -> asyncio.AbstractEventLoop:
    """The event loop of all coroutines of tools, on a thread of its own: a client that lives in one loop serves all calls."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="tool-loop", daemon=True).start()
    return made


class Waiting:
    """One call that somebody waits for. `cancel` ends the waiting, from any thread, at once."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._why = LEFT
        self._lock = threading.Lock()
        self._future: Future[Outcome] | None = None

    def cancel(self, why: str = LEFT) -> None:
        with self._lock:
            if self.cancelled.is_set():
                return
            self._why = why
            self.cancelled.set()
            if self._future is not None:
                _settle(self._future, Outcome(error=self._error()))

    def check(self) -> None:
        """Raises CallCancelled."""
        if self.cancelled.is_set():
            raise self._error()

    def result(self, future: Future[Outcome], timeout: float | None = None) -> Any:
        """What the future comes to, or what it raised. Raises TimeoutError only for `timeout`, and CallCancelled."""
        with self._lock:
            self._future = future
            self.check()
        outcome = future.result(timeout)
        if outcome.error is not None:
            raise Raised(outcome.error) if not isinstance(outcome.error, CallCancelled) else outcome.error
        return outcome.value

    def sleep(self, seconds: float) -> None:
        """Raises CallCancelled."""
        self.cancelled.wait(seconds)
        self.check()

    def _error(self) -> CallCancelled:
        return CallCancelled(f"the call was cancelled: {self._why}")


class Raised(Exception):
    """The tool's own exception, told apart from ours."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


class Workers:
    """Threads for functions that block. Idle ones are used again; all are daemons, so that none keeps the program alive."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self._abandoned = 0
        self._closed = False

    @property
    def abandoned(self) -> int:
        return self._abandoned

    def submit(self, work: Callable[[], None]) -> None:
        """Raises CallRefused after `close`: nobody would do the work."""
        with self._lock:
            if self._closed:
                raise CallRefused("the run has ended; no more calls are made")
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._run, name="tool", daemon=True).start()
            self._work.put(work)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._work.put(None)

    def abandon(self, future: Future[Outcome]) -> None:
        """Counts a function that goes on although nobody waits for it, for as long as it does."""
        with self._lock:
            self._abandoned += 1
        future.add_done_callback(lambda _: self._returned())

    def check(self) -> None:
        """Raises CallRefused where too many go on."""
        if self._abandoned >= MAX_ABANDONED:
            raise CallRefused(
                f"{self._abandoned} calls that ran out of their time still run on the host; no more are started"
            )

    def _returned(self) -> None:
        with self._lock:
            self._abandoned -= 1

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                self._idle += 1


def start(workers: Workers, function: Callable[[], Any]) -> tuple[Future[Outcome], Future[Outcome]]:
    """Starts a function, on a thread, and what it returns, if that is to be awaited, on the loop.

    The first future is for who waits; the second is settled by the function alone, when it is really over.
    """
    asked: Future[Outcome] = Future()
    over: Future[Outcome] = Future()

    def end(outcome: Outcome) -> None:
        over.set_result(outcome)
        _settle(asked, outcome)

    def work() -> None:
        try:
            value = function()
            if inspect.isawaitable(value):
                handle = asyncio.run_coroutine_threadsafe(_finish(value, end), loop())
                asked.add_done_callback(lambda _: handle.cancel() if not over.done() else None)
                return
        except BaseException as error:  # noqa: BLE001 - a tool that calls sys.exit() ends its call, not the host
            end(Outcome(error=error))
            return
        end(Outcome(value))

    context = contextvars.copy_context()
    workers.submit(lambda: context.run(work))
    return asked, over


async def _finish(awaitable: Awaitable[Any], end: Callable[[Outcome], None]) -> None:
    try:
        outcome = Outcome(await awaitable)
    except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop of all tools
        outcome = Outcome(error=error)
    end(outcome)


def _settle(future: Future[Outcome], outcome: Outcome) -> None:
    try:
        future.set_result(outcome)
    except InvalidStateError:
        pass  # it came too late, or was cancelled


def perform(
    workers: Workers, waiting: Waiting, function: Callable[[], Any], timeout: float | None, told: str
) -> Any:
    """Runs a function to its result. Raises Raised with what it raised, ToolTimeout, CallCancelled, CallRefused."""
    workers.check()
    waiting.check()
    asked, over = start(workers, function)
    try:
        return waiting.result(asked, timeout)
    except TimeoutError:
        raise ToolTimeout(f"{told} took longer than {timeout:g} seconds and was given up") from None
    finally:
        if not over.done():
            workers.abandon(over)
            asked.cancel()


def items(stream: Any) -> Callable[[], Any]:
    """The next item of a synchronous or asynchronous iterator, as a function to perform. It returns END at the end."""
    if isinstance(stream, AsyncIterator):

        async def step() -> Any:
            try:
                return await stream.__anext__()
            except StopAsyncIteration:
                return END

        return step
    iterator: Iterator[Any] = iter(stream)
    return lambda: next(iterator, END)


END = object()


def close(stream: Any) -> Any:
    """Closes an iterator that can be; to perform, like `items`."""
    end = getattr(stream, "aclose", None) or getattr(stream, "close", None)
    return end() if end is not None else None
