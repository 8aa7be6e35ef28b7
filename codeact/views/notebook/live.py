"""A run that draws itself in the notebook's cell while it goes: one output, which is replaced a few times a second.

The run has a thread of its own; this one draws, asks, and is the one that the notebook's stop button interrupts.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import suppress

from codeact import events
from codeact.pump import Late, Pump
from codeact.tools.approval import CallRequest, Decision
from codeact.views.notebook import page as pages
from codeact.views.notebook import results
from codeact.views.notebook.output import Output
from codeact.views.notebook.page import Page, State
from codeact.views.notebook.questions import Asked, Person
from codeact.views.story import Teller

PAUSE = 0.3
"""Seconds between two drawings, at least."""
SAID = 120
"""Characters that the line says of what goes on."""
LOOK_SECONDS = 0.5
"""For which the cell's thread sleeps at most: an interrupt may come to another one, and is seen when this one wakes."""
BYTES_A_SECOND = 400_000
"""That a server of notebooks is given; beyond a million it drops outputs."""
ENDING_SECONDS = 30.0
"""For which a run that was stopped is waited for."""
STOPPED = "stopped in the notebook"


class Stopped(KeyboardInterrupt):
    """The notebook's stop button ended a run. Stops the cells that wait as well, and shows as one line."""

    def __init__(self, run: str) -> None:
        how = f"; go on with agent.resume({run!r})" if run else ""
        super().__init__(f"the run was stopped{how}")

    def _render_traceback_(self) -> list[str]:
        return [f"codeact: {self}"]


def drawn(
    stream: Iterator[events.Event], interrupt: Callable[[str], None]
) -> Generator[events.Event, None, None]:
    """The events of a run, while it is drawn. `interrupt` ends the run, and is given why.

    Raises Stopped when the person stopped it, and what the stream raises.
    """
    view = View()
    pump: Pump[events.Event | None] = Pump(stream)
    view.wake = lambda: pump.add(None)
    stopped = over = False
    try:
        view.look()
        while not over:
            try:
                event = _next(pump, view)
            except StopIteration:
                over = True
            except KeyboardInterrupt:
                if stopped:
                    raise Stopped(view.run) from None
                stopped = True
                interrupt(STOPPED)
                view.stopping()
            else:
                if stopped and isinstance(event, events.RunStarted | events.RunResumed):
                    interrupt(STOPPED)  # once more: it may have had nothing to interrupt before
                if event is not None:
                    yield event
    except Exception as error:
        over = True
        view.failed(error)
        raise
    finally:
        if not over:  # whoever took the events has gone
            interrupt(STOPPED)
            _wait(pump, view)
        view.close()
    if stopped and view.status != "answered":
        raise Stopped(view.run)


def _next(pump: Pump[events.Event | None], view: View) -> events.Event | None:
    """The next event; None where time passed or a question came. Raises StopIteration."""
    view.look()
    try:
        event = pump.get(timeout=view.due())
    except Late:
        return None
    if event is not None:
        view.add(event)
    return event


def _wait(pump: Pump[events.Event | None], view: View) -> None:
    """Until the run has ended and removed what it held, but not for ever."""
    until = time.monotonic() + ENDING_SECONDS
    with suppress(Exception):
        while time.monotonic() < until:
            with suppress(Late):
                event = pump.get(timeout=0.5)
                if event is not None:
                    view.add(event)


async def adrawn(stream: AsyncGenerator[events.Event, None]) -> AsyncGenerator[events.Event, None]:
    """As `drawn`, in the running event loop, which the notebook's stop button cancels the task of."""
    view = View()
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        view.look()
        if timer is not None:
            timer.cancel()
        timer = loop.call_later(view.due(), look)

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody looks any more
            loop.call_soon_threadsafe(look)

    view.wake = wake
    try:
        look()
        async for event in stream:
            view.add(event)
            look()
            yield event
    except Exception as error:
        view.failed(error)
        raise
    except asyncio.CancelledError as error:
        # it stays what it is, for the tasks around it; in a cell, it shows as Stopped does
        error.__dict__["_render_traceback_"] = lambda: Stopped(view.run)._render_traceback_()
        raise
    finally:
        await stream.aclose()
        if timer is not None:
            timer.cancel()
        view.close()


class View:
    """What is shown of one run. `ask` is called by other threads, all else by the one that draws."""

    def __init__(self) -> None:
        self.run = ""
        self.wake: Callable[[], None] = lambda: None
        self._teller, self._page, self._output = Teller(), Page(), Output()
        self._began = time.monotonic()
        self._doing: tuple[pages.Kind, str] = ("working", "Starting the sandbox")
        self._drawn = 0.0
        self._pause = PAUSE
        self._changed = True
        self._person = Person(self._output)
        self._asked: list[Asked] = []
        self._lock = threading.Lock()
        self._stopping = False
        OPEN.add(self)

    @property
    def status(self) -> str:
        return self._teller.story.last.status

    def look(self) -> None:
        """Draws what is new, when it is time for it, and asks what is to be asked."""
        self._put_question()
        self._person.look()
        if self.due() == 0.0:
            self._draw()

    def due(self) -> float:
        """Seconds until it should look again: where there is nothing new, so that the stop button is noticed."""
        if not self._changed:
            return LOOK_SECONDS
        return max(0.0, self._drawn + self._pause - time.monotonic())

    def add(self, event: events.Event) -> None:
        if not self.run:
            self.run = event.run
            VIEWS[event.run] = self
        self._teller.add(event)
        if not self._stopping:
            self._doing = _doing(event) or self._doing
        self._changed = True

    def say(self, line: str) -> None:
        """What is waited for, in words from elsewhere. From any thread."""
        if not self._stopping:
            self._doing = ("working", line[:SAID])
        self._look_again()

    def stopping(self) -> None:
        self._stopping = True
        self._doing = ("waiting", "Stopping")
        self._draw()

    def failed(self, error: Exception) -> None:
        """The run did not begin, or did not end as it should."""
        task = self._teller.story.last
        if task.status == "unfinished":
            task.status, task.error = "failed", str(error)

    def close(self) -> None:
        """The last drawing, which stays."""
        VIEWS.pop(self.run, None)
        OPEN.discard(self)
        results.drew(self.run)
        with self._lock:
            for asked in self._asked:
                asked.answer(Decision(False, "the run has ended"))
            self._asked = []
        task = self._teller.story.last
        if task.status == "unfinished":
            task.status = "interrupted"
        self._output.bare(self._page.render(self._teller.story, pages.ended(self._teller.story)))

    # -- questions -----------------------------------------------------------------------------------------------

    def ask(self, request: CallRequest) -> Decision:
        """Waits for what the person says to a call. From any thread but the one that draws."""
        asked = Asked(request)
        with self._lock:
            self._asked.append(asked)
        self.wake()
        try:
            return asked.wait()
        finally:
            with self._lock:
                if asked in self._asked:
                    self._asked.remove(asked)
            self.wake()

    def _put_question(self) -> None:
        """Puts the first question that waits to the person; takes it away once it is answered."""
        with self._lock:
            first = next((asked for asked in self._asked if asked.open), None)
        if first is self._person.asked:
            return
        before, self._person.asked = self._person.asked, first
        if before is not None:
            self._output.bare(self._render())
        if first is not None:
            self._draw()
            self._person.put(self._render, self._look_again)

    def _look_again(self) -> None:
        self._changed = True
        self.wake()

    # -- drawing -------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        text = self._render()
        self._output.put(text)
        self._drawn, self._changed = time.monotonic(), False
        self._pause = max(PAUSE, len(text) / BYTES_A_SECOND)

    def _render(self) -> str:
        kind, words = self._doing
        question = self._person.question
        if question is not None:
            kind, words = "waiting", "Waiting for you"
        clock = round(time.monotonic() - self._began, 1)
        return self._page.render(self._teller.story, State(kind, words, clock), question)


def _doing(event: events.Event) -> tuple[pages.Kind, str] | None:
    """What goes on after an event, in words."""
    match event:
        case events.TurnStarted() | events.Retrying():
            return "working", "Waiting for the model"
        case events.TextDelta():
            return "working", "The model writes"
        case events.CodeStarted() | events.ToolReturned():
            return "working", "Running code"
        case events.ToolCalled():
            return "working", f"Calling {event.tool}"
        case events.ToolProgress():
            total = f" of {event.total:g}" if event.total else ""
            return "working", f"Calling {event.tool}: {event.done:g}{total} {event.text[:SAID]}".rstrip()
        case events.Observed():
            return "working", "Reading what came out"
    return None


VIEWS: dict[str, View] = {}
"""The runs that are being drawn and have begun, by their ids."""
OPEN: set[View] = set()
"""All that are being drawn."""


def progress(line: str) -> None:
    for view in list(OPEN):
        view.say(line)


def ask(request: CallRequest) -> Decision:
    """Asks the person who looks at the notebook about a call."""
    view = VIEWS.get(request.run)
    if view is None:
        return Decision(False, "nobody can be asked, for this run is not drawn; give the agent approve=")
    return view.ask(request)
