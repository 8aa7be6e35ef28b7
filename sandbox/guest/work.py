"""Time in which code computes while it also waits for a function of the host: it counts against the cell, waiting does not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

PERIOD = 0.5
"""The least number of seconds between two looks."""
QUIET = 0.1
"""The share of a processor that a kernel which waits may use all the same."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    processor: float
    waited: float


class Work:
    """Looks now and then, from the first time that the code waits. `waited` gives the seconds in which it has, in all."""

    def __init__(self, waited: Callable[[], float], processor: Callable[[], float] | None = None) -> None:
        self._waited = waited
        self._processor = processor or processor_seconds
        self._began = waited()
        self._last: _Look | None = None

    def overlap(self, now: float) -> float:
        """Seconds since the last look in which the code both computed and waited, at the least; zero where it is too early."""
        last, waited = self._last, self._waited()
        if last is None:
            if waited > self._began:
                self._last = _Look(now, self._processor(), waited)
            return 0.0
        passed = now - last.at
        if passed < PERIOD:
            return 0.0
        self._last = _Look(now, self._processor(), waited)
        computed = min(self._last.processor - last.processor, passed)
        both = computed + (waited - last.waited) - passed
        return both if both > QUIET * passed else 0.0


def processor_seconds() -> float:
    """What all other processes here have used, and the children that they have waited for."""
    ticks = 0
    own = str(os.getpid())
    for name in os.listdir("/proc"):
        if name.isdigit() and name != own:
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{name}/stat", "rb") as file,
            ):
                # the program's name, in brackets, may itself hold brackets and spaces
                ticks += sum(map(int, file.read().rpartition(b") ")[2].split()[11:15]))
    return ticks / TICKS
