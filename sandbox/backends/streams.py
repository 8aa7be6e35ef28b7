"""What an attached exec of a container engine gives: a socket, plain or with TLS, that carries output in pieces."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from typing import Any, Protocol

READ = 256 * 1024
SEND_SECONDS = 60.0
"""How long the engine may take in nothing before a stream counts as broken."""


class Wire(Protocol):
    """Bytes both ways; one thread may read while others write, one after the other."""

    def recv(self, most: int) -> bytes: ...

    def sendall(self, data: bytes) -> None: ...


class PlainWire:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        link.settimeout(None)
        with contextlib.suppress(AttributeError, OSError):  # not every transport has it
            wait = struct.pack("ll", int(SEND_SECONDS), 0)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
        self.recv, self.sendall = link.recv, link.sendall


class TlsWire:
    """A TLS connection may not be read and written at the same time: the lock is held only while nothing blocks."""

    def __init__(self, link: ssl.SSLSocket) -> None:
        self._link = link
        self._lock = threading.Lock()
        link.setblocking(False)

    def recv(self, most: int) -> bytes:
        while True:
            try:
                with self._lock:
                    return self._link.recv(most)
            except ssl.SSLWantReadError:
                self._await(read=True, seconds=None)
            except ssl.SSLWantWriteError:
                self._await(read=False, seconds=SEND_SECONDS)

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                with self._lock:
                    rest = rest[self._link.send(rest) :]
            except ssl.SSLWantWriteError:
                self._await(read=False, seconds=SEND_SECONDS)
            except ssl.SSLWantReadError:  # the other thread reads what is wanted
                self._await(read=True, seconds=SEND_SECONDS)

    def _await(self, *, read: bool, seconds: float | None) -> None:
        number = self._link.fileno()
        if number < 0:
            raise OSError("the stream was closed")
        poller = select.poll()
        poller.register(number, select.POLLIN if read else select.POLLOUT)
        if not poller.poll(None if seconds is None else seconds * 1000):
            raise TimeoutError("the engine takes nothing in")


class AttachedStream:
    """The two directions of an exec. The engine sends `stream, 0, 0, 0, length` before each piece of output."""

    _HEADER = struct.Struct(">BxxxL")
    STDOUT = 1

    def __init__(self, attached: Any) -> None:
        self._attached = attached
        self._socket: Any = getattr(attached, "_sock", attached)
        tls = isinstance(self._socket, ssl.SSLSocket)
        self._wire: Wire = TlsWire(self._socket) if tls else PlainWire(self._socket)
        self._left = 0
        self._kept = True
        self._writing = threading.Lock()

    def read(self) -> bytes:
        while True:
            if self._left == 0:
                header = self._exactly(self._HEADER.size)
                if header is None:
                    return b""
                stream, self._left = self._HEADER.unpack(header)
                self._kept = stream == self.STDOUT
                continue
            data = self._wire.recv(min(self._left, READ))
            if not data:
                return b""
            self._left -= len(data)
            if self._kept:
                return data

    def write(self, data: bytes) -> None:
        with self._writing:
            self._wire.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # of the TCP connection under TLS, too: a farewell could wait for the other end
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._attached.close()
            self._socket.close()
            if isinstance(self._attached, ssl.SSLSocket) and hasattr(self._attached, "_response"):
                self._attached._response.close()  # it holds the connection open, too

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            more = self._wire.recv(count - len(data))
            if not more:
                return None
            data += more
        return data
