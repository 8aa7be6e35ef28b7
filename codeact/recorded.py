"""Tool calls of a run's record, handed out again when the cells that made them are executed again.

A recorded call is known by its cell, its tool and the digest of its arguments; equal calls of one cell are handed out in
the order in which they were made. The order of different calls does not matter, since threads and tasks may mix it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from codeact import events
from codeact.errors import CallRefused


@dataclass(frozen=True, slots=True)
class Unknown:
    """A call that was begun and of which no end is recorded: whether it was carried out, nobody knows."""

    call: str
    key: str


@dataclass(slots=True)
class _Cell:
    """`overlapping`: calls were under way at once, so that their order says nothing. Those of a turn itself always may be."""

    known: dict[tuple[str, str], deque[events.ToolReturned | Unknown]] = field(default_factory=dict)
    overlapping: bool = False


class RecordedCalls:
    """Answers calls from events. `reads` are the tools that change nothing. May be used by many threads at once."""

    def __init__(self, log: Iterable[events.Event] = (), *, reads: Container[str] = ()) -> None:
        self._reads = reads
        self._lock = threading.Lock()
        self._cells: dict[int, _Cell] = {}
        self._cell = _Cell()
        self._ended = False
        self.load(log)

    def load(self, log: Iterable[events.Event]) -> None:
        """Takes the calls of a log, in place of what was known."""
        cells: dict[int, _Cell] = {}
        arguments: dict[str, dict[str, Any]] = {}
        begun: dict[str, tuple[_Cell, tuple[str, str], Unknown]] = {}
        for event in log:
            match event:
                case events.ToolCalled():
                    cell = cells.setdefault(event.cell or -event.turn, _Cell(overlapping=not event.cell))
                    key, call = (event.tool, event.digest), Unknown(event.call, event.key)
                    known = cell.known.setdefault(key, deque())
                    again = next(
                        (one for one in known if isinstance(one, Unknown) and one.key == event.key), None
                    )
                    if again is not None:  # of a call whose end is not known, this is what became of it later
                        known[known.index(again)] = call
                        begun.pop(again.call, None)
                    else:
                        known.append(call)
                    cell.overlapping = cell.overlapping or any(
                        other is cell for other, _, _ in begun.values()
                    )
                    begun[event.call] = (cell, key, call)
                    arguments[event.call] = event.arguments
                case events.ApprovalGiven(allowed=True, arguments=dict(written)):
                    arguments[event.call] = {**arguments.get(event.call, {}), **written}
                case events.ToolReturned(replayed=False) if event.call in begun:
                    cell, key, call = begun.pop(event.call)
                    known = cell.known[key]
                    known[known.index(call)] = replace(event, arguments=arguments[event.call])
        with self._lock:
            self._cells, self._cell = cells, _Cell()

    def begin(self, cell: int, *, ended: bool) -> None:
        """The calls that come next are of this cell, or of the n-th turn itself where it is -n. `ended`: its end is recorded, so that it has no call to make that
        is not recorded too; else it was cut off, and goes on with calls of its own."""
        with self._lock:
            known = self._cells.pop(cell, _Cell(overlapping=cell < 0))
            if cell < 0:  # a turn makes its calls in groups, with code between them
                self._cells[cell] = known
            self._cell, self._ended = known, ended

    def live(self) -> None:
        """The calls that come next are of a cell that is executed for the first time."""
        with self._lock:
            self._cell, self._ended = _Cell(), False

    def take(self, tool: str, digest: str) -> events.ToolReturned | Unknown | None:
        """How a call ended, once for each time it was made; None where it is to be executed.

        Raises CallRefused for a call that would come in addition to what is recorded: a cell that ended made no such call,
        and one that was cut off made another of the same tool in its place.
        """
        with self._lock:
            if known := self._cell.known.get((tool, digest)):
                return known.popleft()
            if self._ended:
                raise CallRefused(
                    f"{tool} was not called like this when this code ran first; while its state is restored nothing new is executed"
                )
            if tool not in self._reads and not self._cell.overlapping and self._unclaimed(tool):
                raise CallRefused(
                    f"{tool} was called with other arguments before the run was cut off, and this call would be one more; find out what was done before calling it again"
                )
        return None

    def left(self) -> list[str]:
        """The tools of calls of the cell that were recorded and not made again."""
        with self._lock:
            return sorted(tool for (tool, _), known in self._cell.known.items() for _ in known)

    def _unclaimed(self, tool: str) -> bool:
        return any(known for (name, _), known in self._cell.known.items() if name == tool)
