"""Caps what one cell may send out, before it is framed: the beginning and the end are kept, the middle is counted."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from . import frames

Emit = Callable[[dict[str, Any], bytes], None]

HEAD_SHARE = 3 / 4
OVERHEAD = 64
"""Bytes that each output is counted as beside its own, so that empty ones are not free."""
FLOOD = 64
"""How many times its limit a cell may write before the host is told, which stops it."""
MAX_ERROR = 64 * 1024
MAX_ERRORS = 4
MAX_MIME_TYPES = 20
PIECE = 256 * 1024
"""Characters of text that one frame carries."""


class OutputGate:
    """Passes a cell's outputs on to `emit` until three quarters of `limit` bytes are used; then keeps only the latest
    quarter, which `finish` sends behind a count of what was dropped between."""

    def __init__(self, limit: int, emit: Emit) -> None:
        self._emit = emit
        self._flood = FLOOD * limit
        self._head_left = int(limit * HEAD_SHARE)
        self._tail_limit = limit - self._head_left
        self._tail: deque[tuple[dict[str, Any], bytes]] = deque()
        self._tail_cost = 0
        self._dropped = 0
        self._errors = 0

    def stream(self, name: str, text: str) -> None:
        header = {"type": "stream", "name": name}
        for start in range(0, len(text), PIECE):
            self._stream_piece(header, text[start : start + PIECE].encode("utf-8", "replace"))

    def rich(self, kind: str, data: dict[Any, Any]) -> None:
        kept = {
            mime: value
            for mime, value in list(data.items())[:MAX_MIME_TYPES]
            if isinstance(mime, str) and isinstance(value, str)
        }
        if kept:
            self._add({"type": "rich", "kind": kind}, json.dumps(kept).encode())

    def error(self, name: str, message: str, traceback: str) -> None:
        """The exception that ended the cell: cut in the middle, but not dropped, whatever was written before."""
        self._errors += 1
        if self._errors > MAX_ERRORS:  # a cell may show as many as it likes without ending
            self._drop(len(message) + len(traceback))
            return
        self.finish()
        said = {"name": cut(name, 200), "message": cut(message), "traceback": cut(traceback)}
        self._emit({"type": "error"}, json.dumps(said).encode())

    def finish(self) -> None:
        """Sends what was held back. What comes afterwards is capped by the same quarter."""
        if self._dropped:
            self._emit({"type": "dropped", "bytes": self._dropped}, b"")
            self._dropped = 0
        for header, body in self._tail:
            self._emit(header, body)
        self._tail.clear()
        self._tail_cost = 0

    def _stream_piece(self, header: dict[str, Any], data: bytes) -> None:
        room = self._head_left - OVERHEAD
        if 0 < room < len(data):  # the piece in which the head ends
            head = _whole(data[:room])
            self._add(header, head)
            self._head_left = 0
            data = data[len(head) :]
        room = max(0, self._tail_limit - OVERHEAD)
        if not self._head_left and len(data) > room:
            end = _whole(data[len(data) - room :])
            self._drop(len(data) - len(end))
            data = end
        if data:
            self._add(header, data)

    def _add(self, header: dict[str, Any], body: bytes) -> None:
        cost = len(body) + OVERHEAD
        carried = len(body) <= frames.MAX_BODY  # more than that no frame does, whatever the limit
        if carried and cost <= self._head_left:
            self._head_left -= cost
            self._emit(header, body)
            return
        self._head_left = 0
        if not carried or cost > self._tail_limit:
            self._drop(len(body))
            return
        self._tail.append((header, body))
        self._tail_cost += cost
        while self._tail_cost > self._tail_limit:
            _, oldest = self._tail.popleft()
            self._tail_cost -= len(oldest) + OVERHEAD
            self._drop(len(oldest))

    def _drop(self, size: int) -> None:
        self._dropped += size
        if self._flood > 0:
            self._flood -= size + OVERHEAD
            if self._flood <= 0:
                self._emit({"type": "flood"}, b"")


def cut(text: str, limit: int = MAX_ERROR) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters ...\n{text[-half:]}"


def _whole(data: bytes) -> bytes:
    """Without the character that a cut through UTF-8 broke, at either end."""
    return data.decode("utf-8", "ignore").encode()
