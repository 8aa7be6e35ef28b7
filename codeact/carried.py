"""A blocking stream of events, carried on a thread for whoever awaits them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Generator

from codeact.events import Event

CANCELLED = "cancelled"


async def carried(
    stream: Generator[Event, None, None], interrupt: Callable[[str], None]
) -> AsyncGenerator[Event, None]:
    """The events of `stream`, and what it raises, in the running event loop.

    When the task that awaits them is cancelled, or wants no more, `interrupt` ends what is under way; nothing of it is left
    when this returns.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()
    over = threading.Event()
    ended = asyncio.Event()

    def in_loop(function: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(function, *arguments)

    def work() -> None:
        item: BaseException | None = None
        try:
            for event in stream:
                if over.is_set() or loop.is_closed():
                    interrupt(CANCELLED)  # once more: it may have had nothing to interrupt before
                in_loop(waiting.put_nowait, event)
        except BaseException as error:  # noqa: BLE001 - it is raised where the events are awaited
            item = error
        in_loop(ended.set)
        in_loop(waiting.put_nowait, item)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="run", daemon=True).start()
    try:
        while (item := await waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        if not ended.is_set():
            over.set()
            interrupt(CANCELLED)
            await asyncio.shield(ended.wait())
