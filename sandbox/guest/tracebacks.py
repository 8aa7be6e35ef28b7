"""Tracebacks cut to what the author of a cell can mend: their own frames, and one line for each library below them."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

MAX_FRAMES = 12
MAX_CHAIN = 3
MAX_MESSAGE = 10_000
OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))

NameOf = Callable[[str], str | None]
"""A frame's file name → what the author calls it, such as `Cell 3`, or None for a file that is not theirs."""


def brief(error: BaseException, name_of: NameOf) -> list[str]:
    """Lines that say where `error` came from, what it is, and what it was caused by."""
    lines: list[str] = []
    frames = list(_frames(error.__traceback__, name_of))  # none where it is the cell that cannot be compiled
    if frames:
        lines.append("Traceback (most recent call last):")
        lines += _elide(frames)
    lines += _message(error, name_of)
    lines += _chain(error)
    return lines


def _frames(tb: TracebackType | None, name_of: NameOf) -> Iterator[str]:
    """One text a frame of the author's, one for each run of frames that are not."""
    library: list[tuple[FrameType, int]] = []
    seen_own = False
    for frame, line in traceback.walk_tb(tb):
        file = frame.f_code.co_filename
        name = name_of(file)
        if name is None:
            # what called the cell, and what serves it, is no concern of its author
            if seen_own and os.path.dirname(file) != OWN_FOLDER:
                library.append((frame, line))
            continue
        seen_own = True
        if library:
            yield _library(library)
            library = []
        source = linecache.getline(file, line, frame.f_globals).strip()
        text = f"  {name}, line {line}, in {frame.f_code.co_name}"
        yield f"{text}\n    {source}" if source else text
    if library:
        yield _library(library)


def _library(frames: list[tuple[FrameType, int]]) -> str:
    frame, line = frames[-1]
    package = str(frame.f_globals.get("__name__", "?")).split(".")[0]
    count = f"{len(frames)} frames" if len(frames) > 1 else "1 frame"
    return f"  ... {count} in {package}, the last at {_short(frame.f_code.co_filename)}:{line}, in {frame.f_code.co_name}"


def _short(file: str) -> str:
    return file.rpartition(f"{os.sep}site-packages{os.sep}")[2].rpartition(f"{os.sep}lib{os.sep}")[2] or file


def _elide(frames: list[str]) -> list[str]:
    if len(frames) <= MAX_FRAMES:
        return frames
    half = MAX_FRAMES // 2
    return [*frames[:half], f"  ... {len(frames) - 2 * half} more frames ...", *frames[-half:]]


def _message(error: BaseException, name_of: NameOf) -> list[str]:
    described = traceback.TracebackException(type(error), error, None, compact=True)
    if isinstance(error, SyntaxError) and error.filename:
        described.filename = name_of(error.filename) or error.filename
    text = "".join(described.format_exception_only())[:MAX_MESSAGE].rstrip("\n")
    return text.split("\n") + _group(error)


def _group(error: BaseException) -> list[str]:
    if not isinstance(error, BaseExceptionGroup):
        return []
    return [f"  - {one_line(inner)}" for inner in error.exceptions[:10]]


def _chain(error: BaseException) -> list[str]:
    lines: list[str] = []
    while len(lines) < MAX_CHAIN:
        if error.__cause__ is not None:
            error, how = error.__cause__, "caused by"
        elif error.__context__ is not None and not error.__suppress_context__:
            error, how = error.__context__, "raised while handling"
        else:
            break
        lines.append(f"({how} {one_line(error)})")
    return lines


def one_line(error: BaseException) -> str:
    text = "".join(
        traceback.TracebackException(type(error), error, None, compact=True).format_exception_only()
    )
    return " ".join(text.split())[:300]
