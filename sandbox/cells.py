"""One cell: code in, outputs as they come, one deadline, and a ladder of ever firmer ways to end it.

The ladder: SIGINT, twice → SIGKILL of the kernel and of all that it started → the same from outside → the sandbox given
up. Each step that is taken is said in the cell's outputs.
"""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.bridge import Bridge, Frame
from sandbox.errors import ConnectionLost, SandboxError
from sandbox.text import TextCleaner, clean, clean_error
from sandbox.types import CellError, CellResult, Dropped, Notice, Output, Rich, Status, Stream, size_text

MAX_CODE = 16 * 1024 * 1024
MAX_MIME = 64
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
    """A step of the ladder: what is sent, what is said, and seconds until the next."""

    sends: str
    says: str
    patience: float


LADDER = (
    Step("I", "an interrupt was sent", 2.0),
    Step("I", "it did not stop; a second interrupt was sent", 2.0),
    Step("K", "it did not stop; the kernel was killed, with all that it had started", 3.0),
    Step("rescue", "the kernel did not go; all processes in the sandbox were killed from outside", 5.0),
)


@dataclass
class CellRun:
    """The state of one running cell.

    `rescue` kills all that runs as the agent's user, from outside. `waited` gives the seconds that the sandbox has spent
    waiting for the host's functions; they do not count against `timeout`.
    """

    bridge: Bridge
    number: int
    timeout: float
    rescue: Callable[[], None]
    waited: Callable[[], float]
    memory_limit: int
    outputs: list[Output] = field(default_factory=list)
    """What was said before the cell began, then what it wrote."""
    status: Status | None = None
    lost: str | None = None
    kernel_gone: bool = False
    sandbox_gone: bool = False
    _reason: Status | None = None
    """Why it is being ended, if it is."""
    _step: int = 0
    _due: float = 0.0
    _text: dict[str, TextCleaner] = field(default_factory=dict)

    def stream(self, code: str, output_limit: int) -> Generator[Output, None, CellResult]:
        """Runs `code`; yields outputs, returns the result. Closing the generator interrupts the cell."""
        started, waited = time.monotonic(), self.waited()
        body = code.encode("utf-8", "replace")
        if len(body) > MAX_CODE:
            said = Notice(
                f"the code is larger than {MAX_CODE >> 20} MiB: write the data in it to a file instead"
            )
            yield said
            return CellResult("refused", (*self.outputs, said))
        self._send({"op": "run", "cell": self.number, "limit": output_limit}, body)
        try:
            self._due = started + self.timeout - waited
            while self.status is None:
                for output in self._advance():
                    self.outputs.append(output)
                    yield output
        finally:
            if self.status is None:  # the consumer left: the kernel must be free for the next cell
                self._begin_ladder("interrupted")
                while self.status is None:
                    self._advance()
        return CellResult(self.status, tuple(self.outputs), time.monotonic() - started, self.lost)

    def _advance(self) -> list[Output]:
        """Waits for the next frame or the deadline; what is to be said of it."""
        waited = self.waited()
        patience = self._due - time.monotonic() + (waited if self._reason is None else 0.0)
        try:
            return self._take(self.bridge.events.get(max(patience, TICK if self._reason is None else 0.0)))
        except queue.Empty:
            pass
        if self._reason is None and self.waited() > waited:  # it waited for the host in that time
            return []
        return self._next_step()

    def _next_step(self) -> list[Output]:
        said = self._begin_ladder("timeout")
        if self._step >= len(LADDER):
            return [*said, *self._give_up("the sandbox did not answer any more and is started afresh")]
        step = LADDER[self._step]
        self._step += 1
        self._due = time.monotonic() + step.patience
        if step.sends == "rescue":
            with contextlib.suppress(SandboxError):  # then the sandbox itself is what goes next
                self.rescue()
        else:
            self._send({"op": "signal", "cell": self.number, "how": step.sends})
        return [*said, *self._flush(), Notice(step.says)]

    def _begin_ladder(self, reason: Status) -> list[Output]:
        if self._reason is not None:
            return []
        self._reason = reason
        self._due = time.monotonic()
        if reason == "timeout":
            return [
                *self._flush(),
                Notice(f"the cell was stopped: it ran longer than its {self.timeout:g} seconds"),
            ]
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
            case "done":
                return self._end(header)
        return []

    def _output(self, header: dict[str, Any], body: bytes) -> list[Output]:
        match header.get("type"):
            case "stream":
                return self._stream_output("stderr" if header.get("name") == "stderr" else "stdout", body)
            case "flood":
                said = Notice("the cell was stopped: it wrote far more output than it may")
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

    def _end(self, header: dict[str, Any]) -> list[Output]:
        said = self._flush()
        own = header.get("status")
        self.status = own if own in ("ok", "error", "refused") else "error"
        self.kernel_gone = own == "refused"
        if self._reason is not None and header.get("signalled") is True:
            self.status = self._reason
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
    if header.get("oom") is True:
        return f"the kernel was killed: the memory limit of {size_text(memory_limit)} was reached"
    if type(code) is not int:
        return "the kernel was killed from inside, with all that ran beside it"
    if code < 0:
        return f"the kernel was ended by {SIGNALS.get(-code, f'signal {-code}')}"
    return f"the kernel ended by itself, with exit code {code}"


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


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
