"""The JSON values of a streamed answer, from its bytes: server-sent events, and what endpoints send in their place.

More lenient than the standard where no reading but one makes sense: an event that no blank line ends, several on lines of
their own, lines of JSON without `data:`, one JSON document, bytes that are not UTF-8. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

DONE = object()
"""Stands for `[DONE]`, behind which nothing is read."""
LARGEST = 8 * 1024 * 1024
"""Bytes, or characters, that one event, or a document in place of a stream, may have."""


def read(pieces: Iterable[bytes]) -> Iterator[tuple[str, Any]]:
    """Each value with the name of its event ("" mostly), as it comes. Raises ValueError for what is not JSON.

    An end within an event that comes after others is a connection that broke: it is left to whoever misses the rest.
    """
    event = ""
    any_yet = False
    size = 0
    held: list[str] = []  # lines of an event or a document whose end has not come
    for line in _lines(pieces):
        name, _, value = line.partition(":")
        if name == "event":
            event = value.strip()
            continue
        if name == "data":
            line = value.removeprefix(" ")
        elif name in ("id", "retry", "") and line:
            continue
        if line.startswith("[DONE]"):
            break
        if line.strip():
            held.append(line)
            size += len(line)
            if size > LARGEST:
                raise ValueError(f"an event is larger than {LARGEST >> 20} MiB")
        if _ends(held, line):
            found, decoded = _decoded(held)
            if found:
                any_yet = True
                yield event, decoded
                event, held, size = "", [], 0
            elif not line and held[0][:1] not in "{[":
                raise ValueError(f"{held[0]!r:.60}")
    else:
        if held:
            found, decoded = _decoded(held)
            if not found and not any_yet:
                raise ValueError(f"{held[0]!r:.60}")
            if found:
                yield event, decoded
        return
    yield event, DONE


def _ends(held: list[str], line: str) -> bool:
    """Whether it is worth trying to decode what came so far: an event of one line, or the last line of a document."""
    return bool(held) and (len(held) == 1 or not line or line[:1] in "}]")


def _decoded(held: list[str]) -> tuple[bool, Any]:
    try:
        return True, json.loads("\n".join(held))
    except ValueError:
        return False, None


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines without their ends (LF, CRLF or CR), the last one too."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        if len(rest) > LARGEST:
            raise ValueError(f"a line is larger than {LARGEST >> 20} MiB")
        for line in lines:
            yield from line.decode(errors="replace").split("\r")
        if b"\r" in rest[:-1]:
            *returns, rest = rest.split(b"\r")
            if not rest:  # it may be the first half of CRLF
                rest = returns.pop() + b"\r"
            yield from (line.decode(errors="replace") for line in returns)
    yield from rest.decode(errors="replace").split("\r")
