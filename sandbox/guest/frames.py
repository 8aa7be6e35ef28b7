"""Frames: the one format in which everything crosses the stream between host and sandbox.

A frame is `header length, body length` (two unsigned 32-bit big-endian numbers), a header (a JSON object) and a body
(bytes). Both lengths are checked before anything is kept, so that a peer cannot make the reader hold more than its two
maxima for a frame.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Iterator
from typing import Any

MAX_HEADER = 2 * 1024 * 1024
MAX_BODY = 64 * 1024 * 1024
MAX_CALL = 16 * 1024 * 1024
"""Bytes of JSON in the argument, or in the result, of one call of a host function."""
MAX_PAYLOAD = 256 * 1024 * 1024
"""Bytes of JSON and buffers in the argument, or in the result, of one call of a host function."""
CALL_CHUNK = 256 * 1024
"""Bytes of a payload that one frame carries: outputs and other calls wait behind no more than one of each call."""
CALL_ROOM = 8
"""Pieces of a result that may be under way to the code that asked for it; it gives room for more as it reads."""
CHUNK = 1024 * 1024
"""Bytes of a file that one frame carries."""
STREAM_WINDOW = 128 * 1024
"""Bytes of one network stream that may be under way in each direction; the reader gives room for more."""
MAX_STREAMS = 64
"""Network streams at one moment. All their windows together are half of what the bridge lets be under way."""
STREAM_CHUNK = 32 * 1024
"""Bytes of a network stream that one frame carries: a cell's frame waits behind no more than one of each stream."""

_LENGTHS = struct.Struct(">II")

Frame = tuple[dict[str, Any], bytes]


class FrameError(Exception):
    """The stream holds what is not a frame; nothing behind it can be read."""


def encode(header: dict[str, Any], body: bytes = b"") -> bytes:
    """A header and a body as one frame. Raises FrameError when either is too large."""
    text = json.dumps(header, separators=(",", ":")).encode()
    if len(text) > MAX_HEADER or len(body) > MAX_BODY:
        raise FrameError(f"a frame of {len(text)} + {len(body)} bytes is too large")
    return b"".join((_LENGTHS.pack(len(text), len(body)), text, body))


class Decoder:
    """Turns pieces of a stream, cut anywhere, into frames. After a FrameError it takes nothing more."""

    def __init__(self, *, max_header: int = MAX_HEADER, max_body: int = MAX_BODY) -> None:
        self._max_header, self._max_body = max_header, max_body
        self._buffer = bytearray()
        self._broken = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes. Raises FrameError for what is not a frame."""
        if self._broken:
            raise FrameError("the stream is broken already")
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTHS.size:
                header_size, body_size = _LENGTHS.unpack_from(self._buffer, start)
                if header_size > self._max_header or body_size > self._max_body:
                    raise FrameError(f"a frame says it has {header_size} + {body_size} bytes")
                end = start + _LENGTHS.size + header_size + body_size
                if len(self._buffer) < end:
                    break
                body_start = end - body_size
                header = _header(bytes(self._buffer[start + _LENGTHS.size : body_start]))
                body = bytes(self._buffer[body_start:end])
                start = end
                yield header, body
        except FrameError:
            self._broken = True
            raise
        finally:
            del self._buffer[:start]


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame's header is not JSON") from error
    if not isinstance(header, dict):
        raise FrameError("a frame's header is not an object")
    return header


class Sequencer:
    """Numbers the frames of one end, so that a stream that broke can be opened again with nothing lost or done twice.

    Frames are kept until the peer says that it has them. A header gets `seq` (from 1) and `ack` (the last frame that came
    in); a frame without `seq` is not part of the sequence.
    """

    ACK_FRAMES = 32
    ACK_BYTES = CHUNK

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self.unacked_bytes = 0
        self._unacked: deque[tuple[int, bytes]] = deque()
        self._frames_since_ack = 0
        self._bytes_since_ack = 0

    def wrap(self, header: dict[str, Any], body: bytes = b"") -> bytes:
        frame = encode({**header, "seq": self.sent + 1, "ack": self.received}, body)
        self.sent += 1
        self._unacked.append((self.sent, frame))
        self.unacked_bytes += len(frame)
        self._frames_since_ack = self._bytes_since_ack = 0
        return frame

    def accept(self, header: dict[str, Any], body: bytes) -> bool:
        """Whether this frame is new. Raises FrameError when one before it is missing."""
        self._forget(header.get("ack"))
        seq = header.get("seq")
        if seq is None:
            return True
        if type(seq) is not int or seq > self.received + 1:
            raise FrameError(f"frame {seq!r} came after frame {self.received}")
        if seq <= self.received:
            return False
        self.received = seq
        self._frames_since_ack += 1
        self._bytes_since_ack += len(body)
        return True

    def ack(self) -> bytes | None:
        """A frame that tells the peer what has come in, when it is time to."""
        if self._frames_since_ack < self.ACK_FRAMES and self._bytes_since_ack < self.ACK_BYTES:
            return None
        self._frames_since_ack = self._bytes_since_ack = 0
        return encode({"op": "ack", "ack": self.received})

    def resume(self, peer_received: object) -> bytes:
        """All that the peer has not got, to be sent again on a new stream."""
        self._forget(peer_received)
        return b"".join(frame for _, frame in self._unacked)

    def _forget(self, peer_received: object) -> None:
        if type(peer_received) is not int or peer_received > self.sent:
            return
        while self._unacked and self._unacked[0][0] <= peer_received:
            self.unacked_bytes -= len(self._unacked.popleft()[1])
