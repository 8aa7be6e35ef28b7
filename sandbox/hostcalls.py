"""Functions of the host that code in a sandbox may call, by name, with JSON values, or with buffers beside them."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox.bridge import Bridge
from sandbox.errors import HostCallRefused, SandboxError
from sandbox.guest import frames
from sandbox.guest.outputs import cut
from sandbox.guest.payloads import BadPayload, Buffer, Incoming, Outgoing, TooLarge
from sandbox.text import clean

HostFunction = Callable[[Any], Any]
"""JSON value in, JSON value out. HostCallRefused and any other exception are raised in the cell, without host frames."""

MAX_WAITING = 64
"""Calls under way at one moment; the supervisor refuses more, so more are not of its making."""
MAX_THREADS = 4 * MAX_WAITING
"""More than calls under way, for functions that go on when nobody waits for them any more."""
MAX_HELD = 2 * frames.MAX_PAYLOAD
"""Bytes of arguments that are held at one moment, of all calls."""
STALLED_SECONDS = 60.0
"""Seconds without a byte read after which an answer is given up."""


@dataclass(eq=False)
class HostCall:
    """A call as a function sees it that asks to: where it came from, its JSON `value`, and the buffers beside it.

    `cancelled` is set when nobody waits for the answer any more: the caller is gone, or its cell ends. What was given to
    `when_cancelled` is called then, at once.
    """

    number: int
    cell: int
    name: str
    value: Any = None
    buffers: Sequence[memoryview] = ()
    cancelled: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _told: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def when_cancelled(self, tell: Callable[[], None]) -> None:
        """`tell` is called on the thread that reads the bridge, so it must not wait; here, where it is cancelled already."""
        with self._lock:
            if not self.cancelled.is_set():
                self._told.append(tell)
                return
        tell()

    def cancel(self) -> None:
        with self._lock:
            self.cancelled.set()
            told, self._told = self._told, []
        for tell in told:
            tell()


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON value, and buffers of bytes beside it. `text` is the value as JSON, where it is known already."""

    value: Any
    buffers: Sequence[Buffer] = ()
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class WithCall:
    """A function of the host that gets the whole call. It returns an Answer, or an iterator of them, each of which is
    made when the code asks for it; the iterator is closed when the code wants no more."""

    function: Callable[[HostCall], Answer | Iterator[Answer]]


@dataclass(eq=False)
class _Call:
    """The host's end of a call. `wanted` counts the items that the code asked for, `room` the pieces that it can take."""

    host: HostCall
    incoming: Incoming
    wanted: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(frames.CALL_ROOM))

    at_work: bool = False
    """Whether the function is, for code that waits for it."""

    @property
    def gone(self) -> bool:
        return self.host.cancelled.is_set()

    def cancel(self) -> None:
        """Also wakes who waits for it to go on."""
        self.host.cancel()
        self.wanted.release()
        self.room.release()


class HostCalls:
    """Runs calls on threads of its own, so that a slow one delays no other and never the bridge.

    The threads are daemons: a function that never returns keeps no program from ending.
    """

    def __init__(self, functions: Mapping[str, HostFunction | WithCall]) -> None:
        self.functions = functions
        self._ready: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._held = 0
        self._threads = self._under_way = 0
        self._at_work = 0
        self._since = 0.0
        self._waited = 0.0
        self.bridge: Bridge | None = None

    # -- frames, on the bridge's thread --------------------------------------------------------------------------

    def take(self, header: dict[str, Any], body: bytes) -> None:
        """A frame of a call from the bridge; what is malformed is dropped, never raised."""
        number = header.get("call")
        if type(number) is not int:
            return
        if header.get("op") == "call":
            self._begin(number, header, body)
            return
        with self._lock:
            call = self._calls.get(number)
        if call is None:
            return
        match header.get("op"):
            case "part":
                self._feed(call, body)
            case "more":
                call.wanted.release()
            case "room":
                pieces = header.get("pieces")
                if type(pieces) is int and 0 < pieces <= frames.CALL_ROOM:
                    call.room.release(pieces)
            case "cancel":
                call.cancel()
                self._forget(call)

    def _begin(self, number: int, header: dict[str, Any], body: bytes) -> None:
        cell = header.get("cell")
        host = HostCall(number, cell if type(cell) is int else 0, clean(header.get("name")))
        with self._lock:
            if number in self._calls or len(self._calls) >= MAX_WAITING:
                return
        try:
            incoming = Incoming(header)
        except (BadPayload, TooLarge) as error:
            self._refuse(host, "TooLarge", f"the argument is no payload, or too large: {error}")
            return
        call = _Call(host, incoming)
        with self._lock:
            if self._held + incoming.size > MAX_HELD:
                too_much = True
            else:
                too_much = False
                self._held += incoming.size
                self._calls[number] = call
        if too_much:
            held = f"{MAX_HELD >> 20} MiB of arguments are under way already"
            self._refuse(host, "TooLarge", f"{held}: make fewer large calls at once")
            return
        self._feed(call, body)

    def _feed(self, call: _Call, body: bytes) -> None:
        if call.incoming.complete and body:
            return
        try:
            call.incoming.feed(body)
        except BadPayload as error:
            self._forget(call)
            self._refuse(call.host, "BadArgument", str(error))
            return
        if call.incoming.complete:
            self._start(call)

    def _start(self, call: _Call) -> None:
        with self._lock:
            self._enter(call)
            self._under_way += 1
            if self._threads < min(MAX_THREADS, self._under_way):
                self._threads += 1
                threading.Thread(target=self._work, name="host-call", daemon=True).start()
        self._ready.put(call)

    def _forget(self, call: _Call) -> bool:
        """Whether it was still to be answered."""
        with self._lock:
            known = self._calls.get(call.host.number) is call
            if known:
                del self._calls[call.host.number]
                self._held -= call.incoming.size
            self._leave(call)
        return known

    # -- time ----------------------------------------------------------------------------------------------------

    def waited(self) -> float:
        """Seconds, all told, in which the sandbox waited for at least one function of the host.

        A function that goes on when nobody waits for it any more does not count.
        """
        with self._lock:
            return self._waited + (time.monotonic() - self._since if self._at_work else 0.0)

    def _enter(self, call: _Call) -> None:
        """Called with the lock held: a function is at work from here on."""
        if call.gone or call.at_work:
            return
        call.at_work = True
        if self._at_work == 0:
            self._since = time.monotonic()
        self._at_work += 1

    def _leave(self, call: _Call) -> None:
        """Called with the lock held."""
        if not call.at_work:
            return
        call.at_work = False
        self._at_work -= 1
        if self._at_work == 0:
            self._waited += time.monotonic() - self._since

    def close(self) -> None:
        with self._lock:
            calls = list(self._calls.values())
            self._calls.clear()
            threads = self._threads
        for call in calls:
            call.cancel()
        for _ in range(threads):
            self._ready.put(None)

    # -- calls, on threads of their own --------------------------------------------------------------------------

    def _work(self) -> None:
        while (call := self._ready.get()) is not None:
            try:
                self._run(call)
            except BaseException as error:  # noqa: BLE001 - the function's own code ran: its iterator, and what it gave
                self._fail(call, _failure(error))
            del call  # what it carried is let go while this thread waits
            with self._lock:
                self._under_way -= 1

    def _run(self, call: _Call) -> None:
        try:
            made = self._outcome(call)
        finally:
            with self._lock:
                self._leave(call)
        if isinstance(made, Answer):
            self._answer(call, made)
        elif isinstance(made, _Failure):
            self._fail(call, made)
        else:
            self._stream(call, made)

    def _stream(self, call: _Call, answers: Iterator[Answer]) -> None:
        """An item for each time that the code asks; the first was asked for by the call."""
        try:
            while not call.gone:
                with self._lock:
                    self._enter(call)
                answer = next(answers, None)
                with self._lock:
                    self._leave(call)
                if answer is None:
                    self._answer(call, Answer(None))
                    return
                if not self._answer(call, answer, item=True):
                    return
                call.wanted.acquire()
        finally:
            close = getattr(answers, "close", None)
            if close is not None:
                close()

    def _outcome(self, call: _Call) -> Answer | Iterator[Answer] | _Failure:
        host = call.host
        function = self.functions.get(host.name)
        if function is None:
            return _Failure("UnknownFunction", f"the host has no function {host.name!r}")
        try:
            text = call.incoming.json
            host.value, host.buffers = json.loads(text) if text else None, call.incoming.buffers
        except (ValueError, RecursionError):
            return _Failure("BadArgument", "the argument is not a JSON value")
        return function.function(host) if isinstance(function, WithCall) else Answer(function(host.value))

    def _answer(self, call: _Call, answer: Answer, *, item: bool = False) -> bool:
        """Sends it; whether the call goes on."""
        header: dict[str, Any] = {"op": "return", "call": call.host.number, "ok": True}
        try:
            outgoing = Outgoing(answer.text or json.dumps(answer.value).encode(), answer.buffers)
        except TooLarge as error:
            self._fail(call, _Failure("TooLarge", f"the result is too large to hand over: {error}"))
            return False
        except (TypeError, ValueError, RecursionError):
            self._fail(call, _Failure("BadResult", "the host function returned what is not a JSON value"))
            return False
        if item:
            header["item"] = True
        sent = self._send(call, header | outgoing.header, outgoing)
        if not item or not sent:
            self._forget(call)
        return sent

    def _send(self, call: _Call, header: dict[str, Any], outgoing: Outgoing) -> bool:
        """Piece by piece, as there is room for them; whether somebody still listens."""
        left = outgoing.size
        for piece in outgoing.pieces():
            left -= len(piece)
            if outgoing.size > frames.CALL_CHUNK and not call.room.acquire(timeout=STALLED_SECONDS):
                return False
            if call.gone:
                return False
            if left:
                header["last"] = False
            else:
                header.pop("last", None)
            if not self._tell(header, piece):
                return False
            header = {"op": "part", "call": call.host.number} | ({"item": True} if header.get("item") else {})
        return True

    def _fail(self, call: _Call, failure: _Failure) -> None:
        if self._forget(call):
            self._refuse(call.host, failure.kind, failure.message)

    def _refuse(self, host: HostCall, kind: str, message: str) -> None:
        said = json.dumps(message).encode()
        self._tell({"op": "return", "call": host.number, "ok": False, "kind": kind, "json": len(said)}, said)

    def _tell(self, header: dict[str, Any], body: bytes) -> bool:
        try:
            if self.bridge is not None:
                self.bridge.send(header, body)
        except SandboxError:
            return False  # nobody is left to hear it
        return True


@dataclass(frozen=True, slots=True)
class _Failure:
    kind: str
    message: str


def _failure(error: BaseException) -> _Failure:
    """What a function raised, whatever it is (`sys.exit()` too): it belongs to the code that called it."""
    kind = error.name if isinstance(error, HostCallRefused) else type(error).__name__
    try:
        return _Failure(kind, cut(str(error)))
    except Exception:  # noqa: BLE001 - `__str__` of whoever made the exception
        return _Failure(kind, "its message cannot be read")
