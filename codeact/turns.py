"""Taking turns: what is used by one caller at a time, while others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from codeact.errors import Interrupted, UsageError


@dataclass(slots=True, eq=False)
class Turn:
    """One caller's turn. `on` while it lasts; `gone` once its caller wants it no more."""

    on: bool = False
    gone: bool = False


class Turns:
    """From any thread. Not fair: of those that wait, any may be next."""

    def __init__(self) -> None:
        # entered itself, and not by way of the condition, whose own code Ctrl-C may end before it lets go of the lock
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._user: int | None = None

    @contextmanager
    def taken(self, turn: Turn, begun: Callable[[], None]) -> Iterator[None]:
        """Waits until it is this one's turn, which lasts as long as the block; `begun` is called as it begins.

        Raises UsageError where it is the same thread's already, and Interrupted where its caller went before it began.
        """
        me = threading.get_ident()
        if self._user == me:
            raise UsageError("a task of this session is under way: read its events to the end first")
        try:
            with self._lock:
                self._changed.wait_for(lambda: turn.gone or self._user is None)
                if turn.gone:
                    raise Interrupted("ended before its turn came")
                self._user, turn.on = me, True
                begun()
            yield
        finally:
            with self._lock:
                if turn.on:
                    self._user, turn.on = None, False
                    self._changed.notify_all()

    def leave(self, turn: Turn, interrupt: Callable[[], None]) -> None:
        """The caller goes: its turn does not begin any more, or what it does is interrupted, and nothing of others."""
        with self._lock:
            turn.gone = True
            self._changed.notify_all()
            if turn.on:
                interrupt()
