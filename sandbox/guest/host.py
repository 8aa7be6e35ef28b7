"""Calls functions of the host from code in the kernel: `call(name, payload)`.

Usable from any thread, from coroutines by way of threads, and from worker processes. A connection carries one call at a
time; idle ones are used again.
"""

from __future__ import annotations

import contextvars
import json
import os
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from io import BufferedReader
from typing import Any

from . import frames
from .payloads import Buffer, Incoming, Outgoing, TooLarge

SOCKET = "/run/k/host.sock"
MAX_IDLE = 8
"""Connections that a process keeps open while they carry no call."""

Value = tuple[Any, list[memoryview]]
"""A JSON value and the buffers that came with it."""


class HostCallError(Exception):
    """The host refused a call, or its function failed. `kind` names the host's error."""

    def __init__(self, message: str, kind: str = "HostCallError") -> None:
        super().__init__(message)
        self.kind = kind


class HostCallFailed(HostCallError):
    """A failure that was told as such: nothing more of the call is to come on its connection."""


class CallTooLarge(HostCallFailed):
    """A call is larger than one may be, and was not made; `why` says by what."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the value for {name} is too large: {why}", "TooLarge")
        self.why = why


class Handle:
    """Ends the call that runs under it, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link: socket.socket | None = None
        self._cancelled = False

    def hold(self, link: socket.socket | None) -> None:
        with self._lock:
            self._link = link
            if self._cancelled and link is not None:
                raise HostCallError("the call was cancelled", "CallCancelled")

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._link is not None:
                self._link.shutdown(socket.SHUT_RDWR)


HANDLE: contextvars.ContextVar[Handle | None] = contextvars.ContextVar("host_call", default=None)


def call(name: str, payload: Any = None) -> Any:
    """Calls the host function `name` with a JSON value and returns its JSON value. Raises HostCallError."""
    return call_with_buffers(name, payload)[0]


def call_with_buffers(name: str, payload: Any = None, buffers: Sequence[Buffer] = ()) -> Value:
    """As `call`, with buffers of bytes beside the JSON, both ways."""
    connection = _connect()
    with connection:
        connection.ask(name, payload, buffers)
        header, value = connection.answer()
        if header.get("item"):
            raise HostCallError(f"{name} yields items: read them one by one", "BadResult")
    return value


def stream(name: str, payload: Any = None, buffers: Sequence[Buffer] = ()) -> Iterator[Value]:
    """As `call_with_buffers`, for a function that yields: each item as it is asked for; what is not is not made."""
    connection = _connect()
    with connection:
        connection.ask(name, payload, buffers)
        while True:
            header, value = connection.answer()
            if not header.get("item"):
                return
            yield value
            connection.send({"op": "more"})


class _Connection:
    """One connection. As a context it carries a call: when that ends well the connection is kept, else closed."""

    def __init__(self) -> None:
        self._link = socket.socket(socket.AF_UNIX)
        self._link.connect(SOCKET)
        self._reader = BufferedReader(socket.SocketIO(self._link, "r"), 64 * 1024)
        self._handle: Handle | None = None

    def __enter__(self) -> None:
        self._handle = HANDLE.get()
        if self._handle is not None:
            self._handle.hold(self._link)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._handle is not None:
            self._handle.hold(None)
        if kind is not None and not issubclass(kind, HostCallFailed):
            self.close()  # an answer may still be under way
        elif not _keep(self):
            self.close()

    def close(self) -> None:
        self._reader.close()
        self._link.close()

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        try:
            self._link.sendall(frames.encode(header, body))
        except BrokenPipeError:
            pass  # what was said before it was closed can still be read

    def ask(self, name: str, payload: Any, buffers: Sequence[Buffer]) -> None:
        try:
            outgoing = Outgoing(json.dumps(payload).encode(), buffers)
        except TooLarge as error:
            raise CallTooLarge(name, str(error)) from None
        header: dict[str, Any] = {"op": "call", "name": name, **outgoing.header}
        for piece in outgoing.pieces():
            self.send(header, piece)
            header = {"op": "part"}

    def answer(self) -> tuple[dict[str, Any], Value]:
        header, size = self._head()
        incoming = Incoming(header)
        self._fill(incoming, size)
        while not incoming.complete:
            self._fill(incoming, self._head()[1])
        made = incoming.json
        value = json.loads(made) if made else None
        if not header.get("ok"):
            raise HostCallFailed(str(value), str(header.get("kind", "HostCallError")))
        return header, (value, incoming.buffers)

    def _head(self) -> tuple[dict[str, Any], int]:
        header_size, body_size = struct.unpack(">II", self._exactly(8))
        header: dict[str, Any] = json.loads(self._exactly(header_size))
        return header, body_size

    def _fill(self, incoming: Incoming, size: int) -> None:
        while size:
            try:
                read = self._reader.readinto(incoming.target[:size])
            except ConnectionError:
                read = 0
            if not read:
                raise _lost()
            incoming.advance(read)
            size -= read

    def _exactly(self, size: int) -> bytes:
        try:
            data = self._reader.read(size)
        except ConnectionError:
            data = b""
        if len(data) < size:
            raise _lost()
        return data


def _lost() -> HostCallError:
    return HostCallError("the connection to the host ended", "ConnectionLost")


_idle: list[_Connection] = []
_lock = threading.Lock()


def _connect() -> _Connection:
    with _lock:
        if _idle:
            return _idle.pop()
    return _Connection()


def _keep(connection: _Connection) -> bool:
    with _lock:
        if len(_idle) < MAX_IDLE:
            _idle.append(connection)
            return True
    return False


def _leave_to_parent() -> None:
    """A forked child must not share its parent's streams, nor wait for a thread that it has not got."""
    global _lock
    _lock = threading.Lock()
    for connection in _idle:
        connection.close()
    _idle.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
