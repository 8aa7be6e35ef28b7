"""How long a cell may run: seconds of its own, and those that its code asks for in `with more_time(...)` blocks."""

from __future__ import annotations

from collections.abc import Callable

MAX_BLOCKS = 64


class Deadline:
    """Time goes off the block that was opened last, when that has none left off the one around it, and in the end off the
    cell's own seconds. A block that ends takes with it what it has left, so that the time around it goes on as it was.

    `limit` is the number of seconds, in all, up to which more is granted; `clock` gives the seconds that count.
    """

    def __init__(self, seconds: float, limit: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen = clock()
        self._end = self._seen + limit
        self._own = seconds
        self._blocks: dict[int, float] = {}
        self._opened = 0
        self.granted = 0.0
        """Seconds beyond the cell's own that were granted, in all."""

    def left(self) -> float:
        """Seconds until the cell is to be stopped; zero or less when it is time."""
        self._spend()
        return self._own + sum(self._blocks.values())

    def open(self, seconds: float) -> tuple[int, float]:
        """Begins a block: its number, and the seconds that it gets, which are fewer near the limit."""
        left = self.left()
        room = self._end - self._seen - left if len(self._blocks) < MAX_BLOCKS else 0.0
        granted = max(0.0, min(seconds, room))
        self._opened += 1
        if granted:
            self._blocks[self._opened] = granted
            self.granted += granted
        return self._opened, granted

    def close(self, block: int) -> None:
        self._spend()
        self._blocks.pop(block, None)

    def _spend(self) -> None:
        now = self._clock()
        passed, self._seen = now - self._seen, now
        for block in reversed(self._blocks):
            spent = min(passed, self._blocks[block])
            self._blocks[block] -= spent
            passed -= spent
        self._own -= passed
