"""Whose turn it is: cells of one sandbox run one after the other, whichever threads they come from."""

from __future__ import annotations

import threading

from sandbox.errors import SandboxBusy


class Turns:
    """`lock` is held while a cell's outputs are read; `reader` is the thread that reads them, whichever did before, else 0.

    Whoever takes a turn calls `check` and then enters the lock itself: Ctrl-C may end any code of Python between an
    exception and the release of a lock, but not the lock's own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reader = 0

    def check(self) -> None:
        """A thread that has left its own cell half read would wait for itself for ever. Raises SandboxBusy."""
        if self.reader == threading.get_ident():
            raise SandboxBusy(
                "the last cell of this sandbox is still read by this thread: take its outputs to the end, or close() it"
            )
