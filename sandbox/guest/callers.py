"""Code in the sandbox that calls functions of the host: its connections, and which call belongs to which."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

from . import frames
from .loop import Loop
from .pipes import Pipe

MAX_CALLERS = 64
MAX_IN_FLIGHT = 64
MAX_HEADER = 64 * 1024
MAX_UNREAD = 2 * frames.MAX_CALL
"""Bytes of answers that a caller may leave unread."""

Send = Callable[[dict[str, Any], bytes], None]


class Callers:
    """Passes calls on to the host while a cell runs. All that callers send is hostile."""

    def __init__(self, loop: Loop, send: Send) -> None:
        self._loop, self._send = loop, send
        self._cell: int | None = None
        self._pipes: set[Pipe] = set()
        self._calls: dict[int, Pipe] = {}
        self._last = 0

    def begin(self, cell: int) -> None:
        self._cell = cell

    def end(self) -> None:
        """The cell is over: who still waits for an answer is told so."""
        self._cell = None
        calls, self._calls = self._calls, {}
        for pipe in calls.values():
            self._refuse(pipe, "CellEnded", "the cell that made this call has ended")

    def meet(self, link: socket.socket) -> None:
        if len(self._pipes) >= MAX_CALLERS:
            link.close()
            return
        pipe = Pipe(link, link, max_header=MAX_HEADER, max_body=frames.MAX_CALL)
        self._pipes.add(pipe)
        self._loop.open(pipe, self._hear, self._lose)

    def answer(self, call: int, header: dict[str, Any], body: bytes) -> None:
        """What the host's function returned; nobody may be waiting for it any more."""
        pipe = self._calls.pop(call, None)
        if pipe is not None:
            self._reply(pipe, header, body)

    def _hear(self, pipe: Pipe, header: dict[str, Any], body: bytes) -> None:
        name = header.get("name")
        if self._cell is None:
            self._refuse(pipe, "CellEnded", "no cell is running")
        elif len(self._calls) >= MAX_IN_FLIGHT:
            self._refuse(pipe, "TooMany", f"{MAX_IN_FLIGHT} calls are under way already")
        elif not isinstance(name, str):
            self._refuse(pipe, "BadCall", "the call names no function")
        else:
            self._last += 1
            self._calls[self._last] = pipe
            self._send({"op": "call", "call": self._last, "cell": self._cell, "name": name[:200]}, body)

    def _refuse(self, pipe: Pipe, kind: str, reason: str) -> None:
        self._reply(pipe, {"ok": False, "kind": kind}, json.dumps(reason).encode())

    def _reply(self, pipe: Pipe, header: dict[str, Any], body: bytes) -> None:
        try:
            pipe.send_bytes(frames.encode(header, body))
        except OSError:
            self._lose(pipe)
        if pipe.pending > MAX_UNREAD:
            self._lose(pipe)

    def _lose(self, pipe: Pipe) -> None:
        self._pipes.discard(pipe)
        for call in [call for call, caller in self._calls.items() if caller is pipe]:
            del self._calls[call]
        self._loop.close(pipe)
