"""A blocking iterator read on a thread of its own, so that whoever waits for it can be interrupted or time out."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """`interrupt` was called while an item was waited for."""


class Late(Exception):
    """No item came in time. Not TimeoutError, which the iterator may raise itself."""


class Pump(Generic[T]):
    """Iterates over `items` elsewhere; `get` waits for the next. After `close`, the iterator is closed as soon as it
    yields, and what it still has is thrown away."""

    def __init__(self, items: Iterator[T]) -> None:
        # to which a signal handler may add while this thread does
        self._queue: queue.SimpleQueue[tuple[str, T | BaseException | None]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(items,), name="model", daemon=True)
        self._thread.start()

    def get(self, timeout: float | None = None) -> T:
        """The next item. Raises StopIteration at the end, Late, Interrupted, or what the iterator raised."""
        try:
            kind, value = self._queue.get(timeout=timeout)
        except queue.Empty:
            raise Late from None
        if kind == "item":
            return value  # type: ignore[return-value]
        if isinstance(value, BaseException):
            raise value
        raise StopIteration

    def add(self, item: T) -> None:
        """An item from elsewhere, behind those that wait. From any thread."""
        self._queue.put(("item", item))

    def interrupt(self) -> None:
        self._queue.put(("stop", Interrupted()))

    def close(self) -> None:
        self._closed.set()

    def _work(self, items: Iterator[T]) -> None:
        try:
            for item in items:
                if self._closed.is_set():
                    break
                self._queue.put(("item", item))
            self._queue.put(("stop", None))
        except BaseException as error:  # noqa: BLE001 - it is raised where the item is waited for, which would wait for ever
            self._queue.put(("stop", error))
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
