"""Values of any kind in a few characters, whatever their `repr` would do."""

from __future__ import annotations

import reprlib

WIDTH = 60


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = WIDTH
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = 3
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # Python writes no more than some thousand digits
            return f"an integer of about {int(x.bit_length() * 0.30103) + 1:,} digits"

    def repr_bytes(self, x: bytes, level: int) -> str:
        return repr(bytes(x[:WIDTH])) + ("..." if len(x) > WIDTH else "")

    repr_bytearray = repr_bytes


def short(value: object) -> str:
    """A value as Python, with what is long or deep in it left out."""
    try:
        return _Short().repr(value)
    except Exception:  # noqa: BLE001 - code of whoever made the value
        return f"a {type(value).__name__}"
