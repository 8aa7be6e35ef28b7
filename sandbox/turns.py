"""Whose turn it is: cells of one sandbox run one after the other, whichever threads they come from."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from sandbox.errors import SandboxBusy


class Turns:
    """A lock that is held while a cell's outputs are read, by whichever thread reads them last.

    A thread that has left its own cell half read would wait for itself for ever: it is refused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader = 0

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Waits for the turn. Raises SandboxBusy when this thread has to end its own first."""
        if self._reader == threading.get_ident():
            raise SandboxBusy(
                "the last cell of this sandbox is still read by this thread: take its outputs to the end, or close() it"
            )
        with self._lock:
            self.read_here()
            try:
                yield
            finally:
                self._reader = 0

    def read_here(self) -> None:
        """This thread reads on, whichever did before."""
        self._reader = threading.get_ident()
