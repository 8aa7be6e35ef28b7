"""How often a tool may be called, and when it is left alone for a while because it keeps failing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from codeact.errors import CallRefused, ToolSourceError, ToolTimeout
from codeact.tools.shown import short
from codeact.tools.tool import Policy, Tool

BREAK_AFTER = 5
"""Failures in a row after which a tool is not called for a while."""
BREAK_SECONDS = 30.0
RATE_PATIENCE = 30.0
"""Seconds that a call waits for its turn at most, where a tool has a rate; beyond, it is refused."""
RETRY_SECONDS = 0.5
"""Before the second attempt; twice as long before each further one."""
MAX_NAMES = 10
_OF_THE_ARGUMENTS = (LookupError, ValueError, TypeError, NotImplementedError)

Clock = Callable[[], float]


def counts_as_failure(tool: Tool, error: BaseException) -> bool:
    """Whether an exception says that the tool is out of order, and not something of this call. What it declares to raise
    is no failure, nor what is said of a value: with another value it may go well. Where an error says so itself, in
    `transient`, that counts."""
    said: object = getattr(error, "transient", None)
    if isinstance(said, bool):
        return said
    names = {kind.__name__ for kind in type(error).__mro__}
    return not names & set(tool.errors) and not isinstance(error, _OF_THE_ARGUMENTS)


def may_retry(tool: Tool, error: BaseException) -> bool:
    """Only what failed by itself, and soon enough: a call that ran out of its time may still run, and takes as long the next
    time."""
    if _asked_to_wait(error) > RATE_PATIENCE:
        return False
    return tool.policy.idempotent and counts_as_failure(tool, error) and not isinstance(error, ToolTimeout)


def before_retry(error: BaseException, attempts: int) -> float:
    """Seconds until a call is tried again: those that the error names, where they are more than ours."""
    return max(RETRY_SECONDS * 2.0 ** (attempts - 1), _asked_to_wait(error))


def _asked_to_wait(error: BaseException) -> float:
    said = getattr(error, "retry_after", None)
    return float(said) if isinstance(said, (int, float)) else 0.0


class Rate:
    """So many calls a minute: as many at once, then evenly. `turn` is for one call; calls get theirs in order."""

    def __init__(self, per_minute: float, clock: Clock = time.monotonic) -> None:
        self._gap = 60.0 / per_minute
        self._burst = max(1.0, per_minute)
        self._clock = clock
        self._next = float("-inf")
        self._lock = threading.Lock()

    def turn(self, name: str) -> float:
        """Seconds to wait before this call. Raises CallRefused where they are more than RATE_PATIENCE."""
        with self._lock:
            wait = self._wait(name)
            self._next = max(self._next, self._clock()) + self._gap
            return wait

    def check(self, name: str) -> None:
        """Raises CallRefused where `turn` would now; takes no turn."""
        with self._lock:
            self._wait(name)

    def _wait(self, name: str) -> float:
        wait = max(0.0, self._next - self._clock() - (self._burst - 1) * self._gap)
        if wait > RATE_PATIENCE:
            raise CallRefused(
                f"{name} may be called {60 / self._gap:g} times a minute; the next call is possible in {wait:.0f} seconds"
            )
        return wait


class Breaker:
    """Open after BREAK_AFTER failures in a row: no call for BREAK_SECONDS, then one on trial."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self._trial = False
        self._last = ""
        self._lock = threading.Lock()

    def admit(self, name: str) -> None:
        """Raises CallRefused while it is open."""
        with self._lock:
            if self._failures < BREAK_AFTER:
                return
            left = self._until - self._clock()
            if left <= 0 and not self._trial:
                self._trial = True
                return
            when = f"in {left:.0f} seconds" if left > 0 else "when the call on trial has gone well"
            raise CallRefused(
                f"{name} failed {self._failures} times in a row, the last time with {self._last}; it is called again {when}"
            )

    def tell(self, failed: str | None) -> None:
        """How a call that was admitted went: with what it failed, or None."""
        with self._lock:
            self._trial = False
            if failed is None:
                self._failures = 0
                return
            self._failures += 1
            self._last = failed
            self._until = self._clock() + BREAK_SECONDS

    def forget(self) -> None:
        """A call that was admitted came to nothing that says anything of the tool."""
        with self._lock:
            self._trial = False


class Guards:
    """The rates and breakers of tools. They belong to what stands behind a tool, so all runs of an agent share them."""

    def __init__(self, tools: Sequence[Tool], clock: Clock = time.monotonic) -> None:
        self.rates: Mapping[str, Rate] = {
            tool.path: Rate(tool.policy.per_minute, clock) for tool in tools if tool.policy.per_minute
        }
        self.breakers: Mapping[str, Breaker] = {tool.path: Breaker(clock) for tool in tools}


class Budget:
    """Calls of each tool in one run. `made` are those of its earlier lives."""

    def __init__(self, made: Mapping[str, int] | None = None) -> None:
        self._made = dict(made or {})
        self._lock = threading.Lock()

    def spend(self, name: str, policy: Policy) -> None:
        """Raises CallRefused when none is left."""
        with self._lock:
            made = self._made.get(name, 0)
            if policy.calls is not None and made >= policy.calls:
                raise CallRefused(f"{name} may be called {policy.calls} times in one run, and has been")
            self._made[name] = made + 1

    def give_back(self, name: str) -> None:
        """A call that was spent for came to nothing before it was made."""
        with self._lock:
            self._made[name] -= 1


def without(tools: Sequence[Tool], off: Sequence[str]) -> tuple[Tool, ...]:
    """The tools whose path, and whose namespace and those above it, are not turned off. Raises ToolSourceError for names of which
    there is none: what was to be turned off would be on."""
    if isinstance(off, str) or not all(isinstance(name, str) for name in off):
        raise ToolSourceError(
            f"tools_off is {short(off)}; it takes a list of tools and namespaces, as in ['shop.refund']"
        )
    for name in off:
        if tools and not any(f"{tool.path}.".startswith(f"{name}.") for tool in tools):
            near = get_close_matches(
                name, {part for tool in tools for part in (tool.path, tool.namespace)}, 1
            )
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(_named(tools))}"
            raise ToolSourceError(f"tools_off has {name!r:.80}, which is no tool and no namespace; {meant}")
    return tuple(tool for tool in tools if not any(f"{tool.path}.".startswith(f"{name}.") for name in off))


def _named(tools: Sequence[Tool]) -> list[str]:
    """The namespaces, and the tools that have none; the first of many."""
    names = dict.fromkeys(tool.namespace or tool.path for tool in tools)
    return list(names)[:MAX_NAMES] + ["others"] * (len(names) > MAX_NAMES)
