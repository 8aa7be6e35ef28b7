"""Caps what one cell may send out, before it is framed: the beginning and the end are kept, the middle is counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

Emit = Callable[[dict[str, Any]], None]

HEAD_SHARE = 3 / 4
FLOOD = 64
"""How many times its limit a cell may write before the host is told, which stops it."""
MAX_ERROR = 64 * 1024
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
        self._tail: deque[tuple[int, dict[str, Any]]] = deque()
        self._tail_size = 0
        self.dropped = 0

    def stream(self, name: str, text: str) -> None:
        for start in range(0, len(text), PIECE):
            self._stream_piece(name, text[start : start + PIECE])

    def _stream_piece(self, name: str, text: str) -> None:
        data = text.encode("utf-8", "replace")
        if len(data) > self._head_left > 0:  # the piece in which the head ends
            head = data[: self._head_left].decode("utf-8", "ignore")
            self._add({"type": "stream", "name": name, "text": head}, self._head_left)
            data = data[len(head.encode()) :]
        if len(data) > self._tail_limit and not self._head_left:
            self._drop(len(data) - self._tail_limit)
            data = data[len(data) - self._tail_limit :]
        self._add({"type": "stream", "name": name, "text": data.decode("utf-8", "replace")}, len(data))

    def rich(self, kind: str, data: dict[Any, Any]) -> None:
        kept = {}
        for mime, value in list(data.items())[:MAX_MIME_TYPES]:
            if isinstance(mime, str) and isinstance(value, str):
                kept[mime] = value
        if kept:
            size = sum(len(value.encode("utf-8", "replace")) for value in kept.values())
            self._add({"type": "rich", "kind": kind, "data": kept}, size)

    def error(self, name: str, message: str, traceback: str) -> None:
        """The exception that ended the cell: never dropped, but cut in the middle."""
        self.finish()
        self._emit({"type": "error", "name": cut(name, 200), "message": cut(message), "traceback": cut(traceback)})

    def finish(self) -> None:
        """Sends what was held back. What comes afterwards is capped by what is left."""
        if self.dropped:
            self._emit({"type": "dropped", "bytes": self.dropped})
            self.dropped = 0
        for _, output in self._tail:
            self._emit(output)
        self._tail.clear()
        self._tail_size = 0

    def _add(self, output: dict[str, Any], size: int) -> None:
        if size <= self._head_left:
            self._head_left -= size
            self._emit(output)
            return
        self._head_left = 0
        if size > self._tail_limit:
            self._drop(size)
            return
        self._tail.append((size, output))
        self._tail_size += size
        while self._tail_size > self._tail_limit:
            oldest, _ = self._tail.popleft()
            self._tail_size -= oldest
            self._drop(oldest)

    def _drop(self, size: int) -> None:
        self.dropped += size
        if self._flood and self.dropped > self._flood:
            self._flood = 0
            self._emit({"type": "flood"})


def cut(text: str, limit: int = MAX_ERROR) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters ...\n{text[-half:]}"
