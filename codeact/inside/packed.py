"""Values in files: what `values.encode` made, JSON first and then the buffers, each where a reader can use it in place."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

MAGIC = b"codeact\x01"
ALIGNED = 64
"""Bytes at whose multiples buffers begin, as Arrow likes them."""
_HEAD = struct.Struct("<8sQQ")
_SIZE = struct.Struct("<Q")

Buffer = bytes | bytearray | memoryview


class BadFile(ValueError):
    """The file does not hold what `write` writes."""


def write(file: BinaryIO, made: Any, buffers: Sequence[Buffer] = ()) -> None:
    """Writes a value. Raises OSError."""
    views = [
        memoryview(buffer).cast("B") if memoryview(buffer).nbytes else memoryview(b"") for buffer in buffers
    ]
    text = json.dumps(made).encode()
    file.write(_HEAD.pack(MAGIC, len(text), len(views)) + b"".join(_SIZE.pack(view.nbytes) for view in views))
    file.write(text)
    at = _HEAD.size + _SIZE.size * len(views) + len(text)
    for view in views:
        file.write(bytes(-at % ALIGNED))
        at += -at % ALIGNED
        file.write(view)
        at += view.nbytes


def read(data: memoryview) -> tuple[Any, list[memoryview]]:
    """What was written, as (JSON, buffers), which lie in `data`. Raises BadFile."""
    try:
        magic, size, count = _HEAD.unpack_from(data)
        if magic != MAGIC:
            raise BadFile("it is no file of a value")
        start = _HEAD.size + _SIZE.size * count
        text = data[start : start + size]
        sizes = [_SIZE.unpack_from(data, _HEAD.size + _SIZE.size * number)[0] for number in range(count)]
        return json.loads(bytes(text)), list(_buffers(data, sizes, start + size))
    except (struct.error, ValueError, RecursionError) as error:
        raise BadFile(f"it is damaged: {error}") from error


def _buffers(data: memoryview, sizes: Iterable[int], at: int) -> Iterator[memoryview]:
    for size in sizes:
        at += -at % ALIGNED
        if at + size > data.nbytes:
            raise BadFile("it is cut off")
        yield data[at : at + size]
        at += size
