"""Where a view writes when nobody watches at a terminal: whole lines, no colours."""

from __future__ import annotations

from typing import TextIO


class PlainScreen:
    """Lines on `stream`, each written when it is whole. A reader that has gone ends the drawing, not the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._open = ""
        encoding = (getattr(stream, "encoding", None) or "ascii").lower()
        self.unicode = encoding.startswith("utf")

    def line(self, text: str, style: str = "") -> None:
        self.end()
        self._put(text + "\n")

    def write(self, text: str, style: str = "") -> None:
        whole, newline, rest = (self._open + text).rpartition("\n")
        self._open = rest
        if newline:
            self._put(whole + newline)

    def end(self) -> None:
        """Ends a line that was begun."""
        if self._open:
            text, self._open = self._open, ""
            self._put(text + "\n")

    def code(self, source: str) -> None:
        self.end()
        first, *others = source.rstrip().split("\n")
        self._put("\n".join([f">>> {first}", *(f"... {line}".rstrip() for line in others)]) + "\n")

    def wait(self, what: str) -> None:
        """Nothing moves in plain lines."""

    def close(self) -> None:
        self.end()

    def _put(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError):
            pass
