"""What a run has used of what it may: turns, time, tokens, and the patience of the person."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from codeact.errors import Interrupted, LimitReached
from codeact.types import RunLimits, Usage


class Meter:
    """`ended` is why the run is to end at once, where it is. `interrupts` counts how often the person said stop: once ends a
    turn, or the run before its first one, and twice the run. `waited` are the seconds in which the run waited for the person, which its limit does not count. Of a run that is carried on, `turns` and `usage` are
    what it had before: it may use as much again."""

    def __init__(self, limits: RunLimits, *, turns: int = 0, usage: Usage = Usage()) -> None:  # noqa: B008 - frozen
        self.limits = limits
        self.usage = usage
        self._turns_before, self._tokens_before = turns, usage.total_tokens
        self.interrupts = self._heeded = 0
        self.ended = ""
        self.waited: Callable[[], float] = lambda: 0.0
        self._began = time.monotonic()
        self._waited_before = 0.0

    def renew(self, turns: int) -> None:
        """For another task after so many turns: it may use as much again."""
        self._turns_before, self._tokens_before = turns, self.usage.total_tokens
        self._waited_before = self.waited()
        self._began = time.monotonic()

    def forget(self) -> None:
        """What the person said before a task is not about it."""
        self.interrupts = self._heeded = 0
        self.ended = ""

    @property
    def unheeded(self) -> bool:
        """Whether the person said stop, and nothing has been stopped for it yet."""
        return self.interrupts > self._heeded

    def heed(self) -> bool:
        """Whether the person said stop since this was last asked: what was under way is stopped now."""
        found = self.unheeded
        self._heeded = self.interrupts
        return found

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def _waited(self) -> float:
        return self.waited() - self._waited_before

    def left(self) -> float | None:
        """Seconds until the limit of the run, as far as a thread can wait; None where it has none."""
        limit = self.limits.seconds
        if limit is None:
            return None
        return min(max(0.0, limit - self.seconds + self._waited()), threading.TIMEOUT_MAX)

    def check(self, turn: int, *, first: bool = False) -> None:
        """Raises LimitReached, or Interrupted when the person said so twice; once is enough before the `first` turn."""
        limits = self.limits
        if self.ended or self.interrupts > (0 if first else 1):
            raise Interrupted(self.ended or "ended by the person")
        for name, value, limit in (
            ("turns", turn - 1 - self._turns_before, limits.turns),
            ("seconds", self.seconds - self._waited(), limits.seconds),
            ("tokens", self.usage.total_tokens - self._tokens_before, limits.tokens),
        ):
            if limit is not None and value >= limit:
                raise LimitReached(name, limit)
