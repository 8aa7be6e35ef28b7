"""One cell: code in, outputs as they come, one deadline, and a ladder of ever firmer ways to end it.

The ladder: SIGINT, twice → SIGKILL of the kernel and of all that it started → the same from outside → the sandbox given
up. Each step that is taken is one of the cell's outputs.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.bridge import Bridge, Frame
from sandbox.deadline import Deadline
from sandbox.errors import ConnectionLost, SandboxError
from sandbox.text import TextCleaner, clean, clean_error
from sandbox.types import (
    CellError,
    CellResult,
    Dropped,
    Notice,
    Output,
    Rich,
    Rung,
    RungAction,
    Status,
    Stream,
    Variable,
    size_text,
)

MAX_CODE = 16 * 1024 * 1024
MAX_MIME = 64
MAX_VARIABLES = 100
TICK = 0.02
"""Seconds between looks at the deadline when only a call of the host holds it up."""
LOST_VARIABLES = "all variables"
SIGNALS: Mapping[int, str] = {
    4: "SIGILL, an illegal instruction",
    6: "SIGABRT, an abort in native code",
    7: "SIGBUS, a bus error",
    8: "SIGFPE, an arithmetic fault",
    9: "SIGKILL",
    11: "SIGSEGV, a segmentation fault",
    15: "SIGTERM",
    24: "SIGXCPU, a limit of processor time",
    25: "SIGXFSZ, a file larger than allowed",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the ladder: what is done and said, and seconds until the next."""

    action: RungAction
    says: str
    patience: float


LADDER = (
    Step("interrupt", "an interrupt was sent", 2.0),
    Step("second_interrupt", "it did not stop; a second interrupt was sent", 2.0),
    Step("kill", "it did not stop; the kernel was killed, with all that it had started", 3.0),
    Step(
        "kill_from_outside",
        "the kernel did not go; all processes in the sandbox were killed from outside",
        5.0,
    ),
)
FLOODED = "the cell was stopped: it wrote far more output than it may"
GIVEN_UP = "the sandbox did not answer any more and is started afresh"
SENT: Mapping[RungAction, str] = {"interrupt": "I", "second_interrupt": "I", "kill": "K"}
"""What the supervisor is told to do; the other steps are not its to take."""


@dataclass
class CellRun:
    """The state of one running cell.

    `rescue` kills all that runs as the agent's user, from outside. `waited` gives the seconds that the sandbox has spent
    waiting for the host's functions; they do not count against `timeout`, nor against `max_timeout`, up to which the code
    may ask for more, except those in which it computed at the same time.
    """

    bridge: Bridge
    number: int
    timeout: float
    rescue: Callable[[], None]
    waited: Callable[[], float]
    memory_limit: int
    max_timeout: float = 0.0
    outputs: list[Output] = field(default_factory=list)
    """What was said before the cell began, then what it wrote."""
    status: Status | None = None
    lost: str | None = None
    survived: tuple[Variable, ...] | None = None
    begun: bool = False
    kernel_gone: bool = False
    sandbox_gone: bool = False
    _reason: Status | None = None
    """Why it is being ended, if it is."""
    _step: int = 0
    _due: float = 0.0
    """When the next step of the ladder is to be taken."""
    _started: float = 0.0
    _worked: float = 0.0
    """Seconds in which the code computed while a function of the host was at work for it."""
    _text: dict[str, TextCleaner] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limit = max(self.timeout, self.max_timeout)
        self._waited_before = self.waited()
        self._deadline = Deadline(self.timeout, limit, self._clock)

    def _clock(self) -> float:
        return time.monotonic() - self.waited() + self._worked

    def stream(self, code: str, output_limit: int) -> Generator[Output, None, CellResult]:
        """Runs `code`; yields outputs, returns the result. Closing the generator interrupts the cell."""
        self._started = time.monotonic()
        body = code.encode("utf-8", "replace")
        if len(body) > MAX_CODE:
            said = Notice(
                f"the code is larger than {MAX_CODE >> 20} MiB: write the data in it to a file instead"
            )
            yield said
            return CellResult("refused", (*self.outputs, said))
        try:
            self.begun = True
            self._send({"op": "run", "cell": self.number, "limit": output_limit}, body)
            while self.status is None:
                for output in self._advance():
                    self.outputs.append(output)
                    yield output
        finally:
            if self.status is None:  # the consumer left: the kernel must be free for the next cell
                self._begin_ladder("interrupted")
                while self.status is None:
                    self._advance()
        return CellResult(self.status, tuple(self.outputs), self._seconds(), self.lost, self.survived)

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _advance(self) -> list[Output]:
        """Waits for the next frame or the deadline; what is to be said of it."""
        running = self._reason is None
        patience = max(TICK, self._deadline.left()) if running else self._due - time.monotonic()
        try:
            return self._take(self.bridge.events.get(min(max(0.0, patience), threading.TIMEOUT_MAX)))
        except queue.Empty:
            pass
        if running and self._deadline.left() > 0:  # it waited for the host in that time
            return []
        return self._next_step()

    def _next_step(self) -> list[Output]:
        said = self._begin_ladder("timeout")
        if self._step >= len(LADDER):
            said += self._give_up(GIVEN_UP)
            return [*said, Rung(Rung.STEPS, "give_up", GIVEN_UP, self._seconds())]
        step = LADDER[self._step]
        self._step += 1
        self._due = time.monotonic() + step.patience
        rung = Rung(self._step, step.action, step.says, self._seconds())
        if step.action in SENT:
            self._send({"op": "signal", "cell": self.number, "how": SENT[step.action]})
        else:
            with contextlib.suppress(SandboxError):  # then the sandbox itself is what goes next
                self.rescue()
        return [*said, *self._flush(), rung]

    def _begin_ladder(self, reason: Status) -> list[Output]:
        if self._reason is not None:
            return []
        self._reason = reason
        self._due = time.monotonic()
        if reason == "timeout":
            more = self._deadline.granted
            more_text = f" and the {more:g} more that it had asked for" if more else ""
            said = f"the cell was stopped: it ran longer than its {self.timeout:g} seconds{more_text}"
            return [*self._flush(), Notice(said)]
        return []

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        with contextlib.suppress(ConnectionLost):  # the bridge says so in its last frame, too
            self.bridge.send(header, body)

    def _take(self, frame: Frame) -> list[Output]:
        header, body = frame
        op = header.get("op")
        if op == "lost":
            return self._give_up(str(header.get("reason")))
        if op == "late":
            return late(body)
        if op == "kernel_died":
            return self._end_with_kernel(header)
        if header.get("cell") != self.number:
            return []
        match op:
            case "output":
                return self._output(header, body)
            case "notice":
                return [*self._flush(), Notice(clean(header.get("text")))]
            case "interrupt":
                return self._begin_ladder("interrupted")
            case "worked":
                self._count_work(header.get("seconds"))
            case "call":
                self._answer_for_time(header.get("call"), _object(body))
            case "done":
                return self._end(header, body)
        return []

    def _count_work(self, seconds: object) -> None:
        """No more than was taken off for waiting."""
        if isinstance(seconds, int | float) and 0 < seconds <= sys.float_info.max:
            self._worked = min(self._worked + seconds, self.waited() - self._waited_before)

    def _answer_for_time(self, call: object, asked: dict[str, Any]) -> None:
        """A `with more_time(...)` block of the cell begins or ends."""
        seconds, block = asked.get("seconds"), asked.get("end")
        answer: dict[str, float] | str | None = None
        if type(block) is int:
            self._deadline.close(block)
        elif self._reason is not None:
            answer = "the cell is being ended"
        elif isinstance(seconds, int | float) and 0 < seconds <= sys.float_info.max:
            number, granted = self._deadline.open(float(seconds))
            answer = {"block": number, "seconds": granted}
        else:
            answer = "more_time takes a number of seconds above 0"
        refused = isinstance(answer, str)
        said = json.dumps(answer).encode()
        kind = "Refused" if refused else ""
        header = {"op": "return", "call": call, "ok": not refused, "kind": kind, "json": len(said)}
        if type(call) is int:
            self._send(header, said)

    def _output(self, header: dict[str, Any], body: bytes) -> list[Output]:
        match header.get("type"):
            case "stream":
                return self._stream_output("stderr" if header.get("name") == "stderr" else "stdout", body)
            case "flood":
                said = Notice(FLOODED)
                return [*self._flush(), said, *self._begin_ladder("interrupted")]
        output = _decode(header, body)
        return [*self._flush(), output] if output is not None else []

    def _stream_output(self, name: str, body: bytes) -> list[Output]:
        others = self._flush(but=name)
        text = self._text.setdefault(name, TextCleaner()).feed(body.decode("utf-8", "replace"))
        return [*others, _stream(name, text)] if text else others

    def _flush(self, but: str = "") -> list[Output]:
        """The text that was held back in case more of it came."""
        held = [(name, cleaner.finish()) for name, cleaner in self._text.items() if name != but]
        return [_stream(name, text) for name, text in held if text]

    def _end(self, header: dict[str, Any], body: bytes) -> list[Output]:
        said = self._flush()
        own = header.get("status")
        self.status = own if own in ("ok", "error", "refused") else "error"
        self.kernel_gone = own == "refused" or header.get("kernel") is False
        if header.get("kernel") is False:
            self.lost = LOST_VARIABLES
        if self._reason is not None and header.get("signalled") is True:
            self.status, self.survived = self._reason, _variables(body)
        if header.get("oom") is True:
            limit = size_text(self.memory_limit)
            said.append(
                Notice(
                    f"a process that the cell had started was killed: the memory limit of {limit} was reached"
                )
            )
        junk = header.get("junk")
        if type(junk) is int and junk > 0:
            said.append(Notice(f"{junk} messages that were not the kernel's own were thrown away"))
        return said

    def _end_with_kernel(self, header: dict[str, Any]) -> list[Output]:
        self.kernel_gone, self.lost = True, LOST_VARIABLES
        if header.get("cell") == self.number:
            self.status = self._reason or "died"
        else:  # it went before this cell was sent
            self.status = self._reason or "refused"
        return [*self._flush(), Notice(death(header, self.memory_limit))]

    def _give_up(self, reason: str) -> list[Output]:
        self.sandbox_gone, self.lost = True, f"everything: {reason}"
        self.status = self._reason or "died"
        return self._flush()


def late(body: bytes) -> list[Output]:
    return [Notice(f"a thread of an earlier cell wrote: {clean(body.decode('utf-8', 'replace'))}")]


def death(header: dict[str, Any], memory_limit: int) -> str:
    """How a kernel ended, in words."""
    code = header.get("exit")
    if header.get("broken") is True:
        return "the kernel could not run cells any more, and was ended"
    if header.get("oom") is True:
        return f"the kernel was killed: the memory limit of {size_text(memory_limit)} was reached"
    if type(code) is not int:
        return "the kernel was killed from inside, with all that ran beside it"
    if code < 0:
        return f"the kernel was ended by {_signal_text(-code)}"
    return f"the kernel ended by itself, with exit code {code}"


def _signal_text(number: int) -> str:
    try:
        return SIGNALS.get(number) or signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _stream(name: str, text: str) -> Stream:
    return Stream("stderr" if name == "stderr" else "stdout", text)


def _decode(header: dict[str, Any], body: bytes) -> Output | None:
    """An output frame as an Output; None for what is not one."""
    match header.get("type"):
        case "rich":
            kept = {
                clean(k): clean(v) for k, v in list(_object(body).items())[:MAX_MIME] if isinstance(v, str)
            }
            return Rich("result" if header.get("kind") == "result" else "display", kept) if kept else None
        case "error":
            said = _object(body)
            name, message, traceback = said.get("name"), said.get("message"), said.get("traceback")
            return CellError(clean_error(name) or "Error", clean(message), clean(traceback))
        case "dropped":
            size = header.get("bytes")
            return Dropped(size if type(size) is int and size > 0 else 0, "more output than the limit")
    return None


def _variables(body: bytes) -> tuple[Variable, ...] | None:
    """What the kernel says of its variables, which is its own to lie about."""
    told = _object(body).get("variables")
    if not isinstance(told, list):
        return None
    found: list[Variable] = []
    for said in told[:MAX_VARIABLES]:
        if not isinstance(said, dict) or not isinstance(said.get("name"), str):
            continue
        size = said.get("size")
        name, kind = _one_line(said["name"]), _one_line(said.get("kind"))
        found.append(Variable(name, kind, size if type(size) is int and 0 <= size < 2**63 else None))
    return tuple(found)


def _one_line(value: object) -> str:
    return " ".join(clean(value).split())[:80]


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
