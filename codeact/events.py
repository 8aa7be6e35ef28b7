"""What happens in a run, as small frozen dataclasses: one schema for the journal, observers and JSON lines.

Each event is a line `{"v": 2, "run": ..., "seq": ..., "time": ..., "type": ..., ...fields}`; `seq` counts from 1 within a
run, `time` is in seconds since the epoch, `parent` is the run that a sub-agent belongs to. `text_delta`,
`output_delta` and `tool_progress` are for those who watch: the journal leaves them out, since `replied`, `observed` and
`tool_returned` say what came of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from codeact.types import Artifact, Reading, RunStatus, Usage
from sandbox.types import CellResult, Output

VERSION = 2
"""Of the schema. Fields and kinds that were added since an earlier one have defaults, so that its files load."""
HEAD = ("run", "seq", "time", "parent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`run`, `seq` and `time` are filled in by the run that emits it."""

    run: str = ""
    seq: int = 0
    time: float = 0.0
    parent: str | None = None
    live_only: ClassVar[bool] = False

    @property
    def type(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """`settings` is what the run was started with, without secrets; `system` and `first` are the first two messages;
    `problems` are what is wrong with the data, one line each."""

    task: str
    model: str
    settings: dict[str, Any]
    system: str
    first: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Event):
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Event):
    live_only: ClassVar[bool] = True
    text: str
    kind: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied(Event):
    """`text` as the model wrote it; `reading` is what was made of it. `seconds` from request to last token. `model` and
    `fingerprint` are what the endpoint says of what has answered."""

    turn: int
    text: str
    reading: Reading
    finish: str
    usage: Usage
    model: str
    seconds: float
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeStarted(Event):
    """`cell` counts the cells of a run from 1; a cell that goes on after the run was cut off starts once more."""

    turn: int
    source: str
    cell: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDelta(Event):
    live_only: ClassVar[bool] = True
    output: Output


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call of a function came to, as the model is told. `id` and `name` are the call's. `made` is False where it was
    answered without being made."""

    id: str
    name: str
    text: str
    ok: bool = True
    made: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(Event):
    """What goes back to the model: `text`, and images by file name in the run's folder.

    `cell` is the result of the last cell of the turn, `earlier` those of the cells before it, which were all `ok`. `cell`
    is None where no code was executed. `results` are those of the calls that the model made itself, in their order.
    """

    turn: int
    text: str
    cell: CellResult | None = None
    images: tuple[str, ...] = ()
    earlier: tuple[CellResult, ...] = ()
    results: tuple[CallResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(Event):
    """A tool is called, by code in the sandbox (`cell` is its number) or by the model itself (`cell` is 0, and `turn` says
    where): written before the tool runs. `call` is its id within the run, `key` its idempotency key: the same for a call that is made again. `arguments` are JSON values, without what is secret;
    `digest` is of all of them, so that a re-executed cell's call is known again."""

    call: str
    cell: int
    tool: str
    arguments: dict[str, Any]
    digest: str
    key: str
    turn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(Event):
    """How far a call is, as its tool says: `done`, of `total` where that is known, and some words."""

    live_only: ClassVar[bool] = True
    call: str
    tool: str
    done: float
    total: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned(Event):
    """How a call ended: `value` as it went back into the sandbox, as JSON (what was too large for that by the name of the file
    that it is in inside), or `error` with the class and the message that the cell saw. `replayed`: it was answered from the
    journal, nothing was executed, and `arguments` are those that it was made with then. `seconds` are the tool's own, `waited`
    those before and between its attempts: for a person, for its turn where it has a rate, before a retry."""

    call: str
    tool: str
    ok: bool
    value: Any = None
    error: dict[str, str] | None = None
    seconds: float = 0.0
    waited: float = 0.0
    attempts: int = 1
    replayed: bool = False
    arguments: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(Event):
    call: str
    tool: str
    arguments: dict[str, Any]
    effects: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGiven(Event):
    """`by` is `policy`, `person` or `callback`; `reason` is the person's own, where the call was refused. `arguments` are
    those that the person changed."""

    call: str
    tool: str
    allowed: bool
    by: str
    reason: str = ""
    arguments: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEnded(Event):
    """A network connection that code in the sandbox asked for. `outcome` is `closed`, `refused` (by the setting, or the
    address behind the name), `failed` (nothing answered) or `cut` (by a limit); `reason` is what the code was told.
    `sent` and `received` are bytes."""

    host: str
    port: int
    outcome: str
    reason: str
    sent: int
    received: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying(Event):
    attempt: int
    reason: str
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(Event):
    """`limit` is `turns`, `seconds` or `tokens`."""

    limit: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRestarted(Event):
    """`lost` says what was gone. `restored` are the cells that were executed again, in order, for their state, `differences`
    how they differ from the first time and what was left out, `names` the variables that are still missing; `seconds`
    is how long that took. With `restored` empty the kernel is a fresh one."""

    reason: str
    lost: str
    restored: tuple[int, ...] = ()
    differences: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(Event):
    """The run goes on in another process, or with the next task of a session. `task` is a further task, where there is one; `text` goes to the model: what is
    not as it was, and the task. Empty: the model need not know."""

    model: str
    task: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataGiven(Event):
    """The user gave more data. `data` are files by the name that they got in the sandbox, `inputs` what they are known by;
    `given` are files in the run's folder, by the variable that their value became; `problems` as in `RunStarted`."""

    data: dict[str, str]
    inputs: dict[str, Any]
    given: dict[str, str]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone(Event):
    """The events from the number `since` on are undone: neither the model nor the kernel knows of them any more."""

    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGiven(Event):
    """`answer` as JSON value; `accepted` is False where its type was refused, and `problem` says why. `file` is the name of a
    file in the run's folder with the answer as it is, where JSON does not hold all of it, such as a table."""

    answer: Any
    accepted: bool
    problem: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Error(Event):
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    status: RunStatus
    answer: Any
    usage: Usage
    seconds: float
    artifacts: tuple[Artifact, ...] = ()
    error: str | None = None


BY_TYPE: dict[str, type[Event]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in Event.__subclasses__()
}


def standing(log: Iterable[Event]) -> list[Event]:
    """The events of a log that were not undone."""
    found: list[Event] = []
    for event in log:
        if isinstance(event, Undone):
            found = [each for each in found if each.seq < event.since]
        else:
            found.append(event)
    return found


def field_names(kind: type[Event]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))
