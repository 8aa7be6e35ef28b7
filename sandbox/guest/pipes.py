"""A stream of frames that never blocks: what cannot be written at once waits in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Protocol

from . import frames

READ = 256 * 1024


class Channel(Protocol):
    def fileno(self) -> int: ...

    def close(self) -> None: ...


class Pipe:
    """`reads` and `writes` may be the same socket. `on_change` is called when something begins to wait, or when it is
    to be read no more, or again; `on_flushed` when some of what waited was written."""

    def __init__(
        self,
        reads: Channel,
        writes: Channel,
        *,
        max_header: int = frames.MAX_HEADER,
        max_body: int = frames.MAX_BODY,
    ) -> None:
        self.reads, self.writes = reads, writes
        self.on_change: Callable[[], None] = lambda: None
        self.on_flushed: Callable[[], None] = lambda: None
        self.greeted = True
        self.closed = False
        self._paused = False
        self._decoder = frames.Decoder(max_header=max_header, max_body=max_body)
        self._waiting = bytearray()
        for end in (reads, writes):
            os.set_blocking(end.fileno(), False)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    @property
    def paused(self) -> bool:
        """Whether it is not read for now, so that its peer must wait."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        if paused != self._paused:
            self._paused = paused
            self.on_change()

    def receive(self) -> Iterator[frames.Frame]:
        """Frames that have arrived. Raises EOFError at the end, OSError and FrameError when it is broken."""
        try:
            data = os.read(self.reads.fileno(), READ)
        except BlockingIOError:
            return
        if not data:
            raise EOFError
        yield from self._decoder.feed(data)

    def send_bytes(self, data: bytes) -> None:
        if self.closed:
            return
        if self._waiting:
            self._waiting += data
            return
        try:
            sent = os.write(self.writes.fileno(), data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self._waiting += memoryview(data)[sent:]
            self.on_change()

    def flush(self) -> None:
        try:
            sent = os.write(self.writes.fileno(), memoryview(self._waiting)[: 1024 * 1024])
        except BlockingIOError:
            return
        del self._waiting[:sent]
        self.on_flushed()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.reads.close()
            if self.writes is not self.reads:
                self.writes.close()
