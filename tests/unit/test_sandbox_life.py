"""A sandbox that is started, used and closed by several threads, and by Ctrl-C at each line: nothing is left, and who waits is told."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from sandbox import Sandbox, SandboxClosed, live, session
from sandbox.backends.choice import Chosen
from sandbox.bridge import VERSION
from sandbox.guest import frames

SECONDS = 10
TRACED = (session.__file__, live.__file__)


class Wire:
    """A stream to a supervisor that welcomes, and whose kernel comes up at once."""

    def __init__(self) -> None:
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._said.put(frames.encode({"op": "welcome", "version": VERSION, "received": 0}))

    def read(self) -> bytes:
        return self._said.get(timeout=SECONDS)

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        self._said.put(b"")

    def say(self, **header: Any) -> None:
        self._said.put(frames.encode(header))


class Backend:
    """One whose start, and whose kernel, wait for the test to let them go on."""

    unenforced: dict[str, str] = {}  # noqa: RUF012 - none

    def __init__(self) -> None:
        self.starting, self.connected = threading.Event(), threading.Event()
        self.may_start, self.may_come_up = threading.Event(), threading.Event()
        self.up = False
        self.wires: list[Wire] = []

    def start(self) -> None:
        self.starting.set()
        assert self.may_start.wait(SECONDS)
        self.up = True

    def connect(self) -> Wire:
        wire = Wire()
        self.wires.append(wire)
        self.connected.set()
        if self.may_come_up.is_set():
            wire.say(op="kernel_up", seq=1)
        return wire

    def run_as_agent(self, argv: object, *, within: float) -> Callable[[], bool]:
        return lambda: False

    def stop(self) -> None:
        self.up = False

    def mounted(self) -> frozenset[str]:
        return frozenset()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Backend]:
    """The backends that were made, of which only those whose events are set come up by themselves."""
    backends: list[Backend] = []

    def make(*given: Any, **settings: Any) -> Backend:
        backends.append(Backend())
        return backends[-1]

    monkeypatch.setattr(session, "choose", lambda *given: Chosen(None, None))
    monkeypatch.setattr(session, "make_backend", make)
    return backends


@contextlib.contextmanager
def aside(work: Callable[[], object]) -> Iterator[list[BaseException | None]]:
    """Does it on a thread of its own; in the end, what it raised."""
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
            outcome.append(None)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield outcome
    finally:
        thread.join(SECONDS)
        assert not thread.is_alive()


def first(made: list[Backend]) -> Backend:
    while not made:
        threading.Event().wait(0.001)
    return made[0]


@pytest.mark.parametrize("moment", ["the backend starts", "the kernel comes up"])
def test_a_sandbox_that_is_closed_while_it_starts_says_so(made: list[Backend], moment: str) -> None:
    box = Sandbox("minimal")
    with aside(box.start) as outcome:
        backend = first(made)
        assert backend.starting.wait(SECONDS)
        if moment == "the kernel comes up":
            backend.may_start.set()
            assert backend.connected.wait(SECONDS)
        box.close()
        backend.may_start.set()
    (error,) = outcome
    assert isinstance(error, SandboxClosed)
    assert str(error) == "this sandbox was closed while it started"
    assert not backend.up


@pytest.mark.parametrize("use", [Sandbox.revive, Sandbox.start])
def test_who_uses_a_sandbox_that_starts_waits_for_it(
    made: list[Backend], use: Callable[[Sandbox], object]
) -> None:
    box = Sandbox("minimal")
    with aside(box.start) as started:
        backend = first(made)
        assert backend.starting.wait(SECONDS)
        with aside(lambda: use(box)) as used:
            backend.may_start.set()
            assert backend.connected.wait(SECONDS)
            assert not used
            backend.wires[0].say(op="kernel_up", seq=1)
    assert (started, used, len(made)) == ([None], [None], 1)
    box.close()
    assert not backend.up


def test_ctrl_c_at_any_line_of_a_start_or_a_close_leaves_nothing(
    made: list[Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backend, "__init__", at_once(Backend.__init__))
    for call in (Sandbox.start, Sandbox.close):
        lines = interrupted(call, 0)
        assert lines > 10
        for line in range(1, lines + 1):
            interrupted(call, line)
            assert [backend.up for backend in made if backend.up] == [], (call, line)
            assert {thread.name for thread in threading.enumerate()}.isdisjoint(
                {"sandbox-bridge", "sandbox-network"}
            ), (call, line)
    assert len(made) > 20


def at_once(init: Callable[[Backend], None]) -> Callable[[Backend], None]:
    def both(backend: Backend) -> None:
        init(backend)
        backend.may_start.set()
        backend.may_come_up.set()

    return both


def interrupted(call: Callable[[Sandbox], None], line: int) -> int:
    """Makes the call, with Ctrl-C at its so manieth line, then closes; how many lines it had."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line":
            count += 1
            if count == line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    box = Sandbox("minimal", network="api.example.com")
    if call is Sandbox.close:
        box.start()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(box)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    box.close()
    return count
