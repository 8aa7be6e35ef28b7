"""The supervisor's one loop: waits for sockets, pipes and ZMQ channels, and calls what handles each."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

import zmq

from . import frames
from .pipes import Pipe

Handle = Callable[[Pipe, dict[str, Any], bytes], None]
Gone = Callable[[Pipe], None]


class Loop:
    """Sources are ZMQ sockets or file descriptors; a handler gets the ZMQ poll flags that are set."""

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._handlers: dict[Any, Callable[[int], None]] = {}

    def turn(self, milliseconds: int) -> bool:
        """Waits for at least one source, and handles all that are ready; whether there was any."""
        ready = self._poller.poll(milliseconds)
        for source, event in ready:
            handler = self._handlers.get(source)  # one handled before may have let go of this one
            if handler is not None:
                handler(event)
        return bool(ready)

    def watch(self, source: Any, handler: Callable[[int], None], flags: int = zmq.POLLIN) -> None:
        self._handlers[source] = handler
        self._poller.register(source, flags)

    def watches(self, source: Any) -> bool:
        return source in self._handlers

    def forget(self, source: Any) -> None:
        if self._handlers.pop(source, None) is not None:
            self._poller.unregister(source)

    def listen(self, path: str, greet: Callable[[socket.socket], None]) -> None:
        """Opens a socket for this user and its group; `greet` gets each connection."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o660)
        listener.listen(64)
        listener.setblocking(False)

        def accept(_: int) -> None:
            with contextlib.suppress(OSError):
                link, _address = listener.accept()
                greet(link)

        self.watch(listener.fileno(), accept)

    def open(self, pipe: Pipe, handle: Handle, gone: Gone) -> None:
        """Watches a pipe; its frames go to `handle`. `gone` is called once, when it ends or breaks."""
        reads, writes = pipe.reads.fileno(), pipe.writes.fileno()
        duplex = reads == writes

        def ready(event: int) -> None:
            try:
                if event & (zmq.POLLIN | zmq.POLLERR) and not pipe.paused:
                    for header, body in pipe.receive():
                        handle(pipe, header, body)
                        if pipe.closed:
                            return
                if pipe.pending:
                    pipe.flush()
            except (EOFError, OSError, frames.FrameError):
                gone(pipe)
                return
            if not pipe.pending and not pipe.closed:
                watch()

        def watch() -> None:
            readable = 0 if pipe.paused else zmq.POLLIN
            writable = zmq.POLLOUT if pipe.pending else 0
            flags = {reads: readable | writable} if duplex else {reads: readable, writes: writable}
            for source, wanted in flags.items():
                if wanted:
                    self.watch(source, ready, wanted)
                else:
                    self.forget(source)

        pipe.on_change = watch
        watch()

    def close(self, pipe: Pipe) -> None:
        if not pipe.closed:
            self.forget(pipe.reads.fileno())
            self.forget(pipe.writes.fileno())
            pipe.close()
