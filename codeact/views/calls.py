"""Calls of tools as lines: one when it is over, in the live view, and a table of all of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from codeact import events
from codeact.inside import values
from codeact.tools.record import SECRET
from codeact.tools.shown import short
from sandbox.text import clean

SHOWN_ARGUMENTS, SHOWN_RESULT = 80, 60
MAX_SHOWN_DEPTH = 4
SHOWN_WAIT = 0.05
"""Seconds."""


@dataclass(slots=True)
class Call:
    """One call of a record. `arguments` are those that it was made with; `first` is what those that a person changed were
    before. `ok` is None where no end is recorded."""

    call: str
    tool: str
    cell: int | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    ok: bool | None = None
    value: Any = None
    error: dict[str, str] | None = None
    seconds: float = 0.0
    waited: float = 0.0
    attempts: int = 0
    replayed: bool = False


def of(log: Iterable[events.Event]) -> list[Call]:
    """The calls of a run, in the order in which they were made."""
    calls: dict[str, Call] = {}
    for event in log:
        match event:
            case events.ToolCalled():
                calls[event.call] = Call(event.call, event.tool, event.cell, event.arguments)
            case events.ApprovalGiven(allowed=True, arguments=dict(changed)) if event.call in calls:
                change(calls[event.call], changed)
            case events.ToolReturned(replayed=False):
                end(calls.setdefault(event.call, Call(event.call, event.tool)), event)
    return list(calls.values())


class Changeable(Protocol):
    """A call whose arguments a person may change."""

    arguments: dict[str, Any]
    first: dict[str, Any]


def change(call: Changeable, written: Mapping[str, Any]) -> None:
    """Gives a call the arguments that a person wrote in place of those that it came with."""
    given = call.arguments
    call.first = {
        name: given.get(name, NOT_GIVEN)
        for name, value in written.items()
        if value == SECRET or given.get(name, NOT_GIVEN) != value
    }
    call.arguments = {**given, **written}


def end(call: Call, event: events.ToolReturned) -> None:
    call.ok, call.value, call.error = event.ok, event.value, event.error
    call.seconds, call.waited, call.attempts = event.seconds, event.waited, event.attempts
    call.replayed = event.replayed
    if event.arguments is not None:
        call.arguments = event.arguments


def line(call: Call, arrow: str) -> str:
    """A call and what came of it."""
    return f"{made(call)} {arrow} {outcome(call)}"


def made(call: Call) -> str:
    """A call as it was made, and what a person changed of it."""
    shown = f"{clean(call.tool)}({_arguments(call.arguments)})"
    return f"{shown} (changed from {_arguments(call.first)})" if call.first else shown


def _arguments(values: Mapping[str, Any]) -> str:
    return _cut(
        ", ".join(f"{clean(name)}={_value(value)}" for name, value in values.items()), SHOWN_ARGUMENTS
    )


def outcome(call: Call) -> str:
    """What came of it, in a few words."""
    if call.error is not None:
        said = f"{call.error.get('class', '')}: {call.error.get('message', '')}"
        return _cut(clean(said), SHOWN_RESULT)
    if call.ok is None:
        return "no end is recorded"
    return _cut(_value(call.value), SHOWN_RESULT)


def progress(event: events.ToolProgress) -> str:
    """How far a call is, in one line."""
    done = f"{event.done:g} of {event.total:g}" if event.total is not None else f"{event.done:g}"
    said = f" ({_cut(clean(event.text), SHOWN_RESULT)})" if event.text else ""
    return f"calling {clean(event.tool)}: {done}{said}"


def seconds(call: Call, dot: str) -> str:
    parts = [f"{call.seconds:.1f} s"]
    if call.waited >= SHOWN_WAIT:
        parts.append(f"waited {call.waited:.1f} s")
    if call.attempts > 1:
        parts.append(f"{call.attempts} attempts")
    if call.replayed:
        parts.append("from the journal")
    return dot.join(parts)


def table(calls: Sequence[Call]) -> list[str]:
    """A head, a line for each call, and a line of sums."""
    rows = [("call", "cell", "seconds", "waited", "tries", "what was called", "what came of it")]
    for call in calls:
        rows.append(
            (
                call.call,
                str(call.cell or ""),
                f"{call.seconds:.2f}",
                f"{call.waited:.2f}" if call.waited >= SHOWN_WAIT else "",
                str(call.attempts or ""),
                made(call),
                outcome(call),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    failed = sum(call.ok is False for call in calls)
    total = sum(call.seconds for call in calls)
    many = "" if len(calls) == 1 else "s"
    return [*lines, f"{len(calls)} call{many}, {failed} failed, {total:.2f} s"]


def _value(value: Any) -> str:
    return SECRET if value == SECRET else clean(short(_said(value)))


def _said(value: Any, depth: int = 0) -> Any:
    """A recorded value as code saw it, as far as that can be shown; a table or large bytes by what they are."""
    if depth > MAX_SHOWN_DEPTH:
        return ...
    match value:
        case {values.TAG: "answer", "v": made}:
            return _said(made, depth)
        case {values.TAG: "object", "class": str(name), "v": dict(fields)}:
            return _Word(
                f"{name}({', '.join(f'{key}={short(_said(each, depth + 1))}' for key, each in fields.items())})"
            )
        case {values.TAG: "large", "what": str(what), "path": path}:
            return _Word(f"{what} in {values.WORKSPACE / str(path)}")
        case {values.TAG: str(kind), "buffer": _}:
            return _Word(f"({kind})")
        case {values.TAG: _}:
            try:
                return values.decode(value)
            except values.BadValue:
                return value
        case dict():
            return {key: _said(each, depth + 1) for key, each in value.items()}
        case list():
            return [_said(each, depth + 1) for each in value]
    return value


class _Word(str):
    """Text that is shown as it is."""

    __repr__ = str.__str__


NOT_GIVEN = _Word("(not given)")


def _cut(text: str, size: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= size else f"{flat[: size - 3]}..."


class Tally:
    """The calls of one cell, as a live view tells them: the first of each tool one by one, the others in sum."""

    SHOWN = 5

    def __init__(self) -> None:
        self._open: dict[str, Call] = {}
        self._ended: dict[str, list[Call]] = {}

    def called(self, event: events.ToolCalled) -> None:
        self._open[event.call] = Call(event.call, event.tool, event.cell, event.arguments)

    def approved(self, event: events.ApprovalGiven) -> None:
        if event.allowed and event.arguments and event.call in self._open:
            change(self._open[event.call], event.arguments)

    def returned(self, event: events.ToolReturned) -> Call | None:
        """The call that ended, where it is to be told by itself."""
        call = self._open.pop(event.call, None) or Call(event.call, event.tool)
        end(call, event)
        ended = self._ended.setdefault(call.tool, [])
        ended.append(call)
        return call if len(ended) <= self.SHOWN else None

    def rest(self) -> list[str]:
        """A line for each tool of which some calls were not told."""
        lines = []
        for tool, calls in self._ended.items():
            hidden = calls[self.SHOWN :]
            if hidden:
                failed = sum(call.ok is False for call in hidden)
                total = sum(call.seconds for call in hidden)
                lines.append(f"{clean(tool)}: {len(hidden)} more calls, {failed} failed, {total:.1f} s")
        self._open.clear()
        self._ended.clear()
        return lines
