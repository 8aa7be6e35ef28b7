"""Calls functions of the host from code in the kernel: `call(name, payload)`.

Usable from any thread and from worker processes; each has a connection of its own.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any

from . import frames

SOCKET = "/run/k/host.sock"


class HostCallError(Exception):
    """The host refused a call, or its function failed. `kind` names the host's error."""

    def __init__(self, message: str, kind: str = "HostCallError") -> None:
        super().__init__(message)
        self.kind = kind


class _Connection(threading.local):
    link: socket.socket | None = None
    owner = 0


_connection = _Connection()


def call(name: str, payload: Any = None) -> Any:
    """Calls the host function `name` with a JSON value and returns its JSON value. Raises HostCallError."""
    argument = json.dumps(payload).encode()
    if len(argument) > frames.MAX_CALL:
        limit = frames.MAX_CALL >> 20
        raise HostCallError(
            f"the value for {name} is too large: {len(argument):,} bytes, at most {limit} MiB", "TooLarge"
        )
    header, body = _exchange(frames.encode({"op": "call", "name": name}, argument))
    value = json.loads(body) if body else None
    if not header.get("ok"):
        raise HostCallError(str(value), str(header.get("kind", "HostCallError")))
    return value


def _exchange(request: bytes) -> frames.Frame:
    link = _connection.link
    if link is None or _connection.owner != os.getpid():  # a forked child must not share its parent's stream
        link = socket.socket(socket.AF_UNIX)
        link.connect(SOCKET)
        _connection.link, _connection.owner = link, os.getpid()
    try:
        link.sendall(request)
        decoder = frames.Decoder()
        while True:
            data = link.recv(frames.CHUNK)
            if not data:
                raise HostCallError("the connection to the host ended", "ConnectionLost")
            for frame in decoder.feed(data):
                return frame
    except BaseException:  # an answer may still be under way: the connection is of no more use
        _connection.link = None
        link.close()
        raise
