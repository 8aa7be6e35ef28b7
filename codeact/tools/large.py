"""Results that are too large for one call, as files of the workspace that say what they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from codeact.errors import ToolError
from codeact.inside import large, packed, tables, values
from sandbox.errors import SandboxError
from sandbox.held import scratch_folder

MAX_CROSSING = 32 * 1024 * 1024
"""Bytes of a text, in UTF-8, and of a `bytes`, that cross as what they are."""
PREVIEW_LINES, PREVIEW_WIDTH = 3, 200
_PIECE = 1024 * 1024

Store = Callable[[Path, str], object]
"""Copies a file of the host into the workspace, to a path in it. Raises SandboxError."""
InWorkspace = Callable[[PurePath], str]
"""As for `values.encode`."""


def is_long(value: Any) -> bool:
    """Whether it is a text, or bytes, too long to cross."""
    match value:
        case str() if 4 * len(value) > MAX_CROSSING and not value.isascii():
            return sum(len(_encoded(piece)) for piece in _pieces(value)) > MAX_CROSSING
        case str() | bytes() | bytearray():
            return len(value) > MAX_CROSSING
    return False


def stored(value: Any, name: str, store: Store, path: InWorkspace) -> dict[str, Any]:
    """Writes a value to a file in the folder of results, `name` with an ending. What crosses in its place.

    Raises ToolError where it cannot be written.
    """
    with scratch_folder() as folder, (folder / "result").open("wb") as file:
        try:
            made = _write(value, file, path)
            file.flush()
            made["path"] = f"{large.FOLDER}/{name}{large.KINDS[made['kind']][0]}"
            made["bytes"] = file.tell()
            store(Path(file.name), made["path"])
        except values.CannotCross as error:
            raise ToolError(f"the result is too large for one call, and {error}") from None
        except (OSError, SandboxError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            raise ToolError(
                f"the result is too large for one call ({file.tell() / 1e6:,.0f} MB), and could not be written to the "
                f"workspace: {said}; ask for less, or in parts"
            ) from None
    return {values.TAG: large.TAG, "what": type(value).__name__, **made}


def _write(value: Any, file: BinaryIO, path: InWorkspace) -> dict[str, Any]:
    match value:
        case str():
            for piece in _pieces(value):
                file.write(_encoded(piece))
            preview = value[: PREVIEW_LINES * PREVIEW_WIDTH]
            return {"kind": "text", "count": len(value), "preview": preview}
        case bytes() | bytearray():
            file.write(value)
            return {"kind": "bytes", "count": len(value), "preview": repr(bytes(value[: PREVIEW_WIDTH // 4]))}
        case list():
            lines = _json_lines(value, path)
            first = list(islice(lines, PREVIEW_LINES))
            file.writelines(first)
            file.writelines(lines)
            return {"kind": "list", "count": len(value), "preview": "".join(map(_line, first))}
    found = tables.encode(value)
    if isinstance(found, tables.Encoded) and (found.beside or found.cells):  # more than Arrow holds
        packed.write(file, *values.encode(value, "the result of the tool", path))
        return {"kind": "frame", "count": len(value), "preview": _first_rows(value)}
    if isinstance(found, tables.Encoded):
        file.write(found.data)
        kind = "array" if found.tag == "array" else "table"
        described = {"tag": found.tag, "fields": dict(found.fields), "preview": _first_rows(value)}
        return {"kind": kind, "count": len(value), **described}
    text = json.dumps(values.encode_whole(value, "the result of the tool", path))
    file.write(text.encode())
    return {"kind": "value", "preview": text[: PREVIEW_LINES * PREVIEW_WIDTH]}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _json_lines(items: Sequence[Any], path: InWorkspace) -> Iterator[bytes]:
    for index, item in enumerate(items):
        made = values.encode_whole(item, f"the result of the tool[{index}]", path)
        yield json.dumps(made).encode() + b"\n"


def _line(line: bytes) -> str:
    text = line.decode().rstrip("\n")
    return (text if len(text) <= PREVIEW_WIDTH else f"{text[: PREVIEW_WIDTH - 1]}…") + "\n"


def _first_rows(value: Any) -> str:
    """Of a table; of an array, its shape and type."""
    if hasattr(value, "head"):
        text = repr(value.head(PREVIEW_LINES))
    else:
        parts = [
            f"{name}={getattr(value, name)}" for name in ("shape", "dtype", "schema") if hasattr(value, name)
        ]
        text = " ".join(parts)
    return text[: 2 * PREVIEW_LINES * PREVIEW_WIDTH]
