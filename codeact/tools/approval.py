"""Who is asked before a call is made, and what they may say."""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from codeact.errors import ToolError
from codeact.tools.context import RunContext
from codeact.tools.tool import Tool

Mode = Literal["never", "writes", "always"]
MODES: tuple[Mode, ...] = ("never", "writes", "always")


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call that wants to be made. `arguments` are checked values by the names that code uses; `source` is the call as
    Python, without what is secret, cleaned, and whole up to 20,000 characters of an argument. `cancelled` is set when nobody waits for an answer any more."""

    tool: Tool
    arguments: Mapping[str, Any]
    source: str
    run: str
    call: str
    context: RunContext
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    problem: str = ""
    """What is wrong with the arguments that were given in the last answer, where this is asked again."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was said to a request. `reason` is passed on to the code; `always` allows all calls of this tool in this
    run; `arguments` replace those of these names, and are checked again."""

    allowed: bool
    reason: str = ""
    always: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)


Answer = Decision | bool | str
"""A text refuses, and is the reason."""
Ask = Callable[[CallRequest], Answer | Awaitable[Answer]]
Permit = Callable[[CallRequest, RunContext], str | None]
"""None, or why the call is not allowed; anything else refuses as well."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Which calls are asked about, and who is asked; nobody where `ask` is None. `by` is who that is."""

    mode: Mode = "writes"
    ask: Ask | None = None
    by: Literal["policy", "person", "callback"] = "callback"
    one_at_a_time: bool = False
    """Whether a request waits until those before it are answered."""

    def __post_init__(self) -> None:
        """Raises ToolError: a word that is none would ask about nothing."""
        if self.mode not in MODES:
            raise ToolError(
                f"approve={self.mode!r} is not known; write {', '.join(MODES)}, or give a function"
            )
        if self.ask is not None and not callable(self.ask):
            raise ToolError(f"ask of an Approval is a {type(self.ask).__name__}; give a function, or None")

    def asks(self, tool: Tool) -> bool:
        return self.mode == "always" or (self.mode == "writes" and tool.policy.effects != "read")


def approval(given: Approval | Mode | Ask) -> Approval:
    """What `Agent(approve=...)` takes; a function that may ask a person is called for one call at a time. Raises ToolError."""
    if isinstance(given, Approval):
        return given
    if isinstance(given, str):
        return Approval(given)
    if not callable(given):
        raise ToolError(f"approve is a {type(given).__name__}; give {', '.join(MODES)}, or a function")
    return Approval("writes", given, one_at_a_time=not inspect.iscoroutinefunction(given))


def decision(answer: object) -> Decision:
    """An answer as a Decision. What is none refuses: a function that forgot to return must not allow."""
    match answer:
        case Decision(allowed=bool(), always=bool(), reason=str(), arguments=Mapping()):
            return answer
        case Decision():  # such as "no", which is true
            fields = ("allowed", "always", "reason", "arguments")
            kinds = ", ".join(f"{name} of type {type(getattr(answer, name)).__name__}" for name in fields)
            return Decision(
                False, f"the approval function returned a Decision with {kinds}, which allows nothing"
            )
        case bool():
            return Decision(answer)
        case str():
            return Decision(False, answer)
    return Decision(False, f"the approval function returned {type(answer).__name__}, which allows nothing")


class Line:
    """Those who wait for one thing get it in the order in which they came."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    @contextmanager
    def turn(self, cancelled: threading.Event) -> Iterator[bool]:
        """Waits for its turn; False when it was cancelled meanwhile."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            while self._waiting[0] is not ticket and not cancelled.is_set():
                self._changed.wait(0.1)
        try:
            yield not cancelled.is_set()
        finally:
            with self._changed:
                self._waiting.remove(ticket)
                self._changed.notify_all()
