"""One cell: code in, outputs as they come, one deadline, and a ladder of ever firmer ways to end it.

The ladder: SIGINT → a nudge on the kernel's channel and SIGINT again (an `await` that is stuck wakes only then) → SIGKILL
of the kernel → all processes of the agent's user killed → the sandbox given up. Each step that is taken is said in the
cell's outputs.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.bridge import Bridge, Frame
from sandbox.text import clean, clean_error
from sandbox.types import CellError, CellResult, Dropped, Notice, Output, Rich, Status, Stream

MAX_MIME = 64
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

    sends: tuple[str, ...]
    says: str
    patience: float


LADDER = (
    Step(("I",), "an interrupt was sent", 2.0),
    Step(("nudge", "I"), "it did not stop; a second interrupt was sent", 3.0),
    Step(("K",), "it did not stop; the kernel was killed", 3.0),
    Step(("rescue",), "the kernel did not go; all processes in the sandbox were killed", 5.0),
)


@dataclass
class CellRun:
    """The state of one running cell. `rescue` kills all that runs as the agent's user, from outside."""

    bridge: Bridge
    number: int
    timeout: float
    rescue: Callable[[], None]
    memory_limit: str = ""
    outputs: list[Output] = field(default_factory=list)
    reason: Status | None = None
    """Why it is being ended, if it is."""
    step: int = 0
    due: float = 0.0

    def stream(self, code: str, output_limit: int) -> Generator[Output, None, CellResult]:
        """Runs `code`; yields outputs, returns the result. Closing the generator interrupts the cell."""
        started = time.monotonic()
        self.due = started + self.timeout
        self.bridge.send({"op": "run", "cell": self.number, "limit": output_limit}, code.encode("utf-8", "replace"))
        status: Status | None = None
        lost: str | None = None
        try:
            while status is None:
                new, status, lost = self._advance()
                for output in new:
                    self.outputs.append(output)
                    yield output
        finally:
            if status is None:  # the consumer left: the kernel must be free for the next cell
                self._begin_ladder("interrupted")
                while status is None:
                    _, status, lost = self._advance()
        return CellResult(status, tuple(self.outputs), time.monotonic() - started, lost)

    def _advance(self) -> tuple[list[Output], Status | None, str | None]:
        """Waits for the next frame or the deadline: outputs, and how the cell ended if it did."""
        try:
            frame = self.bridge.events.get(timeout=max(0.0, self.due - time.monotonic()))
        except queue.Empty:
            return self._next_step()
        return self._take(frame)

    def _next_step(self) -> tuple[list[Output], Status | None, str | None]:
        said = self._begin_ladder("timeout") if self.reason is None else []
        if self.step >= len(LADDER):
            return said, "died", "everything: the sandbox did not answer any more and is started afresh"
        step = LADDER[self.step]
        self.step += 1
        self.due = time.monotonic() + step.patience
        for how in step.sends:
            if how == "rescue":
                self.rescue()
            else:
                self.bridge.send({"op": "signal", "cell": self.number, "how": how})
        return [*said, Notice(step.says)], None, None

    def _begin_ladder(self, reason: Status) -> list[Output]:
        if self.reason is not None:
            return []
        self.reason = reason
        self.due = time.monotonic()
        if reason == "timeout":
            return [Notice(f"the cell was stopped: it ran longer than its {self.timeout:g} seconds")]
        return []

    def _take(self, frame: Frame) -> tuple[list[Output], Status | None, str | None]:
        header, _ = frame
        op = header.get("op")
        if op == "lost":
            return [], "died", f"everything: {header.get('reason')}"
        if op == "late":
            return [Notice(f"a thread of an earlier cell wrote: {clean(header.get('text'))}")], None, None
        if header.get("cell") != self.number:
            return [], None, None
        match op:
            case "output":
                return self._output(header)
            case "notice":
                return [Notice(clean(header.get("text")))], None, None
            case "interrupt":
                return self._begin_ladder("interrupted"), None, None
            case "done":
                return [], self.reason or _status(header.get("status")), None
            case "kernel_died":
                return [Notice(self._death(header))], self.reason or "died", "all variables"
        return [], None, None

    def _output(self, header: dict[str, Any]) -> tuple[list[Output], Status | None, str | None]:
        if header.get("type") == "flood":
            said = Notice("the cell was stopped: it wrote far more output than it may")
            return [said, *self._begin_ladder("interrupted")], None, None
        output = _decode(header)
        return [output] if output is not None else [], None, None

    def _death(self, header: dict[str, Any]) -> str:
        code = header.get("exit")
        if header.get("oom") is True:
            return f"the kernel was killed: the memory limit of {self.memory_limit} was reached"
        if type(code) is not int:
            return "the kernel was killed from inside, with all that ran beside it"
        if code < 0:
            return f"the kernel was ended by {SIGNALS.get(-code, f'signal {-code}')}"
        return f"the kernel ended by itself, with exit code {code}"


def _status(value: object) -> Status:
    return value if value in ("ok", "error", "refused") else "error"  # type: ignore[return-value]


def _decode(header: dict[str, Any]) -> Output | None:
    """An output frame as an Output; None for what is not one."""
    match header.get("type"):
        case "stream":
            return Stream("stderr" if header.get("name") == "stderr" else "stdout", clean(header.get("text")))
        case "rich":
            data = header.get("data")
            if isinstance(data, dict):
                kept = {clean(k): clean(v) for k, v in list(data.items())[:MAX_MIME] if isinstance(v, str)}
                return Rich("result" if header.get("kind") == "result" else "display", kept)
        case "error":
            return CellError(
                clean_error(header.get("name")) or "Error",
                clean(header.get("message")),
                clean(header.get("traceback")),
            )
        case "dropped":
            size = header.get("bytes")
            return Dropped(size if type(size) is int and size > 0 else 0, "more output than the limit")
    return None
