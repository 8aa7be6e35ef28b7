"""Code in the sandbox that calls functions of the host: its connections, and which call belongs to which.

A connection carries one call at a time, whose payload comes in pieces. Pieces are passed on as they come: up while the
host takes them in, down as far as the caller reads them. So a large one holds up no other call, and fills no memory.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import frames
from .loop import Loop
from .pipes import Pipe

MAX_CALLERS = 256
MAX_IN_FLIGHT = 64
MAX_HEADER = 4 * 1024
MAX_NAME = 200
BUSY = 2 * 1024 * 1024
"""Bytes that the host has not got at which no caller is read: outputs come first."""
GRANT = frames.CALL_ROOM // 4
"""Pieces that a caller has read after which the host is given room for as many more."""
PAYLOAD = ("json", "buffers", "size")

Send = Callable[[dict[str, Any], bytes], None]


@dataclass(eq=False, slots=True)
class Caller:
    """A connection. `call` is the number of its call, if one is under way; `within` says that a piece of its answer is
    out and another must follow; `owed` are the pieces for which the
    host has not been given room again."""

    pipe: Pipe
    call: int = 0
    within: bool = False
    owed: int = 0


class Callers:
    """Passes calls on to the host while a cell runs. All that callers send is hostile.

    `unheard` is how many bytes the host has not got yet.
    """

    def __init__(self, loop: Loop, send: Send, unheard: Callable[[], int]) -> None:
        self._loop, self._send, self._unheard = loop, send, unheard
        self._cell: int | None = None
        self._callers: set[Caller] = set()
        self._calls: dict[int, Caller] = {}
        self._awaited: set[int] = set()
        """Calls for whose answer, or next item, their callers wait."""
        self._since = self._waited = 0.0
        self._paused: list[Caller] = []
        self._last = 0

    def waited(self) -> float:
        """Seconds in which at least one caller waited for the host, all told."""
        return self._waited + (time.monotonic() - self._since if self._awaited else 0.0)

    def _await(self, number: int) -> None:
        if not self._awaited:
            self._since = time.monotonic()
        self._awaited.add(number)

    def _end_wait(self, number: int) -> None:
        if number in self._awaited:
            self._waited = self.waited()
            self._since = time.monotonic()
            self._awaited.remove(number)

    def begin(self, cell: int) -> None:
        self._cell = cell

    def end(self) -> None:
        """The cell is over: who still waits for an answer is told so."""
        self._cell = None
        self.cancel("CellEnded", "the cell that made this call has ended")

    def cancel(self, kind: str, reason: str) -> None:
        """Ends all calls that are under way, here and on the host."""
        for caller in list(self._calls.values()):
            if caller.within:
                self._lose(caller)
            else:
                self._drop(caller)
                self._refuse(caller, kind, reason)

    def meet(self, link: socket.socket) -> None:
        if len(self._callers) >= MAX_CALLERS:
            link.close()
            return
        pipe = Pipe(link, link, max_header=MAX_HEADER, max_body=frames.CALL_CHUNK)
        caller = Caller(pipe)
        self._callers.add(caller)
        pipe.on_flushed = lambda: self._give_room(caller)
        self._loop.open(
            pipe,
            lambda _, header, body: self._hear(caller, header, body),
            lambda _: self._lose(caller),
        )

    def answer(self, header: dict[str, Any], body: bytes) -> None:
        """A piece of what the host's function returned; nobody may be waiting for it any more."""
        number = int(header["call"])
        caller = self._calls.get(number)
        if caller is None:
            return
        caller.within = header.get("last") is False
        self._end_wait(number)
        if not caller.within and not header.get("item"):
            del self._calls[number]
            caller.call = 0
        told = {key: value for key, value in header.items() if key in ("op", "ok", "kind", "item", *PAYLOAD)}
        self._reply(caller, told, body)
        if caller.within or header["op"] == "part":
            caller.owed += 1
            self._give_room(caller)

    def resume(self) -> None:
        """The host may have caught up."""
        if self._paused and self._unheard() <= BUSY:
            paused, self._paused = self._paused, []
            for caller in paused:
                if not caller.pipe.closed:
                    caller.pipe.paused = False

    def _hear(self, caller: Caller, header: dict[str, Any], body: bytes) -> None:
        match header.get("op"):
            case "call":
                self._begin_call(caller, header, body)
            case "part" | "more" as op if caller.call:
                self._await(caller.call)
                self._pass_on(caller, {"op": op, "call": caller.call}, body)
            case "part" | "more":
                pass  # of a call that was refused, or has its answer already
            case _:
                self._refuse(caller, "BadCall", "the connection speaks of no call")

    def _begin_call(self, caller: Caller, header: dict[str, Any], body: bytes) -> None:
        name = header.get("name")
        if self._cell is None:
            self._refuse(caller, "CellEnded", "no cell is running")
        elif caller.call:
            self._lose(caller)
        elif len(self._calls) >= MAX_IN_FLIGHT:
            self._refuse(caller, "TooMany", f"{MAX_IN_FLIGHT} calls are under way already")
        elif not isinstance(name, str):
            self._refuse(caller, "BadCall", "the call names no function")
        else:
            self._last += 1
            caller.call, caller.owed = self._last, 0
            self._calls[self._last] = caller
            self._await(self._last)
            sizes = {key: header[key] for key in PAYLOAD if type(header.get(key)) is int}
            told = {"op": "call", "call": self._last, "cell": self._cell, "name": name[:MAX_NAME], **sizes}
            self._pass_on(caller, told, body)

    def _pass_on(self, caller: Caller, header: dict[str, Any], body: bytes) -> None:
        self._send(header, body)
        if self._unheard() > BUSY and not caller.pipe.closed:
            caller.pipe.paused = True
            self._paused.append(caller)

    def _give_room(self, caller: Caller) -> None:
        """As the caller reads its answer, the host may send more of it."""
        if caller.call and caller.owed >= GRANT and caller.pipe.pending < frames.CALL_CHUNK:
            owed, caller.owed = caller.owed, 0
            self._send({"op": "room", "call": caller.call, "pieces": owed}, b"")

    def _refuse(self, caller: Caller, kind: str, reason: str) -> None:
        said = json.dumps(reason).encode()
        self._reply(caller, {"op": "return", "ok": False, "kind": kind, "json": len(said)}, said)

    def _reply(self, caller: Caller, header: dict[str, Any], body: bytes) -> None:
        try:
            caller.pipe.send_bytes(frames.encode(header, body))
        except OSError:
            self._lose(caller)
            return
        if caller.pipe.pending > 2 * frames.MAX_CALL:
            self._lose(caller)

    def _drop(self, caller: Caller) -> None:
        """The host need not go on with a caller's call."""
        number, caller.call = caller.call, 0
        self._end_wait(number)
        if self._calls.pop(number, None) is not None:
            self._send({"op": "cancel", "call": number}, b"")

    def _lose(self, caller: Caller) -> None:
        self._callers.discard(caller)
        self._drop(caller)
        self._loop.close(caller.pipe)
