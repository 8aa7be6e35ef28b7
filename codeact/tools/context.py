"""Who a run is for, and what a tool may know of the call that it answers."""

from __future__ import annotations

import inspect
import threading
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from codeact.errors import ToolError, UsageError


@dataclass(frozen=True, slots=True)
class RunContext:
    """Who a run is for. The model never sees it; permission checks and tools do. `extra` is the application's own."""

    user: str = ""
    tenant: str = ""
    roles: frozenset[str] = frozenset()
    trace_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises UsageError."""
        roles: object = self.roles
        if isinstance(roles, str) or not isinstance(roles, Collection):  # "min" is in "admin"
            raise UsageError(
                f"roles: is of type {type(roles).__name__}; give a set, as in frozenset({{'clerk'}})"
            )


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call that a tool answers now. `key` is its idempotency key: the same when the call is made again, after a
    failure or in a resumed run. `cancelled` is set when nobody waits for the result any more."""

    run: str
    call: str
    key: str
    attempt: int = 1
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    context: RunContext = RunContext()
    tell: Callable[[float, float | None, str], None] = field(
        default=lambda done, total, text: None, repr=False
    )

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Shows who watches the run how far the call is; from any thread, and as often as one likes."""
        self.tell(done, total, text)


CURRENT: ContextVar[ToolContext] = ContextVar("codeact_tool_call")


def hidden(signature: inspect.Signature, hints: Mapping[str, Any]) -> tuple[inspect.Parameter, ...]:
    """The parameters that are annotated as ToolContext: code in the sandbox does not see them."""
    return tuple(each for name, each in signature.parameters.items() if _is_context(hints.get(name)))


def values(parameters: Sequence[inspect.Parameter]) -> dict[str, ToolContext]:
    """The call that is being answered, for hidden parameters. Anywhere else those with a default keep it, and for others
    it raises ToolError."""
    outside = CURRENT.get(None) is None
    return {
        each.name: current_call() for each in parameters if not (outside and each.default is not each.empty)
    }


def _is_context(hint: Any) -> bool:
    wrapped = typing.get_origin(hint) in (typing.Union, types.UnionType, typing.Annotated)
    return hint is ToolContext or (wrapped and ToolContext in typing.get_args(hint))


def current_call() -> ToolContext:
    """The call that is being answered, for code of a tool. Raises ToolError anywhere else.

    Threads and loops that a tool starts itself know it only where they are handed a copy of its context.
    """
    try:
        return CURRENT.get()
    except LookupError:
        raise ToolError("current_call() has an answer only in a tool that the agent's code called") from None
