"""What a call carries: a JSON value, and buffers of bytes beside it, cut into pieces that frames can hold.

In the stream the JSON comes first, then the size of each buffer as 64 bits, then the buffers. Only what was announced
and is within the limits is ever held.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from . import frames

Buffer = bytes | bytearray | memoryview
MAX_BUFFERS = 100_000
_SIZE = 8


class BadPayload(Exception):
    """What was announced, or came, is no payload."""


class TooLarge(Exception):
    """More than one call may carry."""


class Outgoing:
    """A payload to be sent. Raises TooLarge."""

    def __init__(self, json: bytes, buffers: Sequence[Buffer] = ()) -> None:
        self._views = [memoryview(buffer).cast("B") for buffer in buffers]
        sizes = struct.pack(f">{len(self._views)}Q", *(view.nbytes for view in self._views))
        self._views.insert(0, memoryview(json + sizes))
        self.size = sum(view.nbytes for view in self._views)
        if len(json) > frames.MAX_CALL:
            raise TooLarge(
                f"{len(json):,} bytes as JSON, at most {frames.MAX_CALL >> 20} MiB; "
                "a table, an array or bytes may be larger"
            )
        if self.size > frames.MAX_PAYLOAD or len(buffers) > MAX_BUFFERS:
            raise TooLarge(f"{self.size:,} bytes, at most {frames.MAX_PAYLOAD >> 20} MiB")
        self.header: dict[str, Any] = {"json": len(json)}
        if buffers:
            self.header |= {"buffers": len(buffers), "size": self.size}

    def pieces(self) -> Iterator[bytes]:
        """At least one, each as large as a frame of a call may be, but for the last."""
        piece, room = bytearray(), frames.CALL_CHUNK
        for view in self._views:
            start = 0
            while start < view.nbytes:
                taken = view[start : start + room]
                piece += taken
                start += taken.nbytes
                room -= taken.nbytes
                if not room:
                    yield bytes(piece)
                    piece, room = bytearray(), frames.CALL_CHUNK
        if piece or not self.size:
            yield bytes(piece)


class Incoming:
    """A payload that comes in pieces, or straight into `target`. Raises BadPayload or TooLarge, first for its header."""

    def __init__(self, header: dict[str, Any]) -> None:
        json, count = header.get("json", 0), header.get("buffers", 0)
        size = header.get("size", json)
        if any(type(each) is not int or each < 0 for each in (json, count, size)) or count > MAX_BUFFERS:
            raise BadPayload("a call announces no payload")
        if json > frames.MAX_CALL or size > frames.MAX_PAYLOAD:
            raise TooLarge(f"{size:,} bytes")
        if json + _SIZE * count > size or (not count and json != size):
            raise BadPayload("a call announces another size than that of its parts")
        self.size: int = size
        self._count, self._json_size = count, json
        self._targets = [memoryview(bytearray(json + _SIZE * count))]
        self._filling = self._filled = 0
        self._skip_full()

    @property
    def complete(self) -> bool:
        return self._filling == len(self._targets)

    @property
    def target(self) -> memoryview:
        """Where the next bytes belong: as many as it has room for may be written, and told to `advance`."""
        return self._targets[self._filling][self._filled :]

    def advance(self, count: int) -> None:
        self._filled += count
        self._skip_full()

    def feed(self, piece: Buffer) -> None:
        view = memoryview(piece)
        while view.nbytes:
            if self.complete:
                raise BadPayload("a call sent more than it announced")
            target = self.target
            count = min(target.nbytes, view.nbytes)
            target[:count] = view[:count]
            view = view[count:]
            self.advance(count)

    @property
    def json(self) -> bytes:
        return bytes(self._targets[0][: self._json_size])

    @property
    def buffers(self) -> list[memoryview]:
        return self._targets[1:]

    def _skip_full(self) -> None:
        while not self.complete and self._filled == self._targets[self._filling].nbytes:
            if self._filling == 0 and self._count:
                self._open_buffers()
            self._filling, self._filled = self._filling + 1, 0

    def _open_buffers(self) -> None:
        sizes = struct.unpack(f">{self._count}Q", self._targets[0][self._json_size :])
        if sum(sizes) != self.size - self._targets[0].nbytes:
            raise BadPayload("the buffers of a call have another size than it announced")
        self._targets += [memoryview(bytearray(size)) for size in sizes]
