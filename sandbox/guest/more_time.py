"""`with more_time(120):`, which every cell can use: its slow part may take so many seconds more."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator

from .host import HostCallError, call

NAME = "sandbox.more_time"
"""The host's function; no function of a user can have this name."""


@contextlib.contextmanager
def more_time(seconds: float) -> Iterator[float]:
    """The block gets `seconds` beyond the cell's own, or what is left of the run; yields how many it got.

    After the block the cell's own time goes on where it stood. Blocks may be nested and used in threads.
    Raises ValueError for what is not a number of seconds above 0.
    """
    try:
        asked = float(seconds)
    except (TypeError, ValueError, OverflowError):
        asked = math.nan
    if not 0 < asked < math.inf:
        raise ValueError(f"more_time({seconds!r}): pass a number of seconds above 0, such as more_time(120)")
    block = call(NAME, {"seconds": asked})
    granted = float(block["seconds"])
    if granted < asked:
        print(f"more_time({asked:g}): {granted:.3g} more seconds are left, and were given", file=sys.stderr)
    try:
        yield granted
    finally:
        with contextlib.suppress(HostCallError, OSError):  # the cell has ended, or is being ended
            call(NAME, {"end": block["block"]})
