"""The proxy as code in the sandbox sees it: a TCP port on loopback, whose connections are carried to the host as they are.

Nothing is understood here: the host reads what is asked, and decides. The supervisor holds the port, so that the code
can neither take it over nor end it. A connection is read only while the host gives room for it, and the host sends no
more than was given room for here: a connection holds at most one window in each direction.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import zmq

from .frames import MAX_STREAMS, STREAM_CHUNK, STREAM_WINDOW
from .loop import Loop

ADDRESS = ("127.0.0.1", 3128)
BUSY = 2 * 1024 * 1024
"""Bytes that the host has not got at which no connection is read: outputs and calls come first."""
FULL = (
    f"HTTP/1.1 503 refused: {MAX_STREAMS} connections are open already; close some, or ask for less at once\r\n"
    "Connection: close\r\nContent-Length: 0\r\n\r\n"
).encode()

Send = Callable[[dict[str, Any], bytes], None]


def variables() -> dict[str, str]:
    """What tells programs of the proxy."""
    url, here = f"http://{ADDRESS[0]}:{ADDRESS[1]}", "localhost,127.0.0.1,::1"
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), url)
    return {**proxies, "NO_PROXY": here, "no_proxy": here}


class Streams:
    """The connections to the proxy. `send` sends a frame to the host, `unheard` is how many bytes it has not got yet."""

    def __init__(
        self, loop: Loop, send: Send, unheard: Callable[[], int], address: tuple[str, int] = ADDRESS
    ) -> None:
        """Raises OSError where there is no loopback interface, or the port is taken."""
        self._loop, self._send, self._unheard = loop, send, unheard
        self._streams: dict[int, Stream] = {}
        self._last = 0
        self._paused = False
        self._listener = socket.create_server(address, backlog=MAX_STREAMS)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()
        loop.watch(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Ends all connections, and lets the port go."""
        for stream in list(self._streams.values()):
            self._drop(stream)
        self._loop.forget(self._listener.fileno())
        self._listener.close()

    def hear(self, header: dict[str, Any], body: bytes) -> None:
        """A frame of the host for one of the streams; it may be gone."""
        stream = self._streams.get(int(header["stream"]))
        if stream is None:
            return
        match header["do"]:
            case "data":
                stream.waiting += body
                self._flush(stream)
            case "room":
                stream.room += int(header["bytes"])
            case "end":
                stream.ended = True
                self._flush(stream)
            case _:
                self._drop(stream)
        self._watch(stream)

    def resume(self) -> None:
        """The host may have caught up."""
        if self._paused and self._unheard() <= BUSY:
            self._paused = False
            for stream in list(self._streams.values()):
                self._watch(stream)

    def _accept(self, _: int) -> None:
        with contextlib.suppress(OSError):
            link, _address = self._listener.accept()
            link.setblocking(False)
            if len(self._streams) >= MAX_STREAMS and not self._evict():
                with contextlib.suppress(OSError):
                    link.send(FULL)
                    link.shutdown(socket.SHUT_WR)
                link.close()
                return
            self._last += 1
            stream = self._streams[self._last] = Stream(self._last, link)
            self._tell(stream, "open")
            self._watch(stream)

    def _evict(self) -> bool:
        """Closes a connection that has had its answer and is still held open by the code; whether there was one."""
        for stream in self._streams.values():
            if stream.ended and not stream.waiting:
                self._drop(stream)
                return True
        return False

    def _ready(self, stream: Stream, event: int) -> None:
        try:
            if event & zmq.POLLOUT:
                self._flush(stream)
            if event & (zmq.POLLIN | zmq.POLLERR) and not stream.closed:
                self._read(stream)
        except BlockingIOError:
            pass
        except OSError:
            self._abort(stream)
        self._watch(stream)

    def _read(self, stream: Stream) -> None:
        if stream.ended:  # whatever else it says, nobody is there to hear it
            if not stream.link.recv(STREAM_CHUNK):
                self._drop(stream)
            return
        if self._unheard() > BUSY:
            self._paused = True
            return
        data = stream.link.recv(min(stream.room, STREAM_CHUNK))
        if data:
            stream.room -= len(data)
            self._tell(stream, "data", data)
        else:
            stream.said_all = True
            self._tell(stream, "end")

    def _flush(self, stream: Stream) -> None:
        """Gives the code what it takes now, and the host room for as much."""
        try:
            sent = stream.link.send(stream.waiting) if stream.waiting else 0
            if sent:
                del stream.waiting[:sent]
                if not stream.ended:
                    self._tell(stream, "room", count=sent)
            if stream.ended and not stream.waiting:
                stream.link.shutdown(socket.SHUT_WR)
                if stream.said_all:
                    self._drop(stream)
        except BlockingIOError:
            pass
        except OSError:
            self._abort(stream)

    def _watch(self, stream: Stream) -> None:
        """Waits for what can be done with it now."""
        if stream.closed:
            return
        flags = zmq.POLLOUT if stream.waiting else 0
        if not stream.said_all and (stream.ended or (stream.room > 0 and not self._paused)):
            flags |= zmq.POLLIN
        if flags == stream.flags:
            return
        stream.flags = flags
        if flags:
            self._loop.watch(stream.link.fileno(), lambda event: self._ready(stream, event), flags)
        else:
            self._loop.forget(stream.link.fileno())

    def _abort(self, stream: Stream) -> None:
        if not stream.closed and not stream.ended:
            self._tell(stream, "close")
        self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        if not stream.closed:
            stream.closed = True
            self._loop.forget(stream.link.fileno())
            stream.link.close()
            self._streams.pop(stream.number, None)

    def _tell(self, stream: Stream, do: str, data: bytes = b"", *, count: int | None = None) -> None:
        header: dict[str, Any] = {"op": "net", "stream": stream.number, "do": do}
        self._send(header if count is None else {**header, "bytes": count}, data)


class Stream:
    """One connection. `room` is how much the host takes, `waiting` what the code has not taken yet."""

    def __init__(self, number: int, link: socket.socket) -> None:
        self.number, self.link = number, link
        self.room = STREAM_WINDOW
        self.waiting = bytearray()
        self.flags = 0
        self.said_all = False
        """The code has sent all that it will."""
        self.ended = False
        """The host has."""
        self.closed = False
