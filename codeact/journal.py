"""The event log on disk: one JSON line an event, flushed before what it says takes effect.

`run.jsonl` in the run's folder is the truth of a run. A crash leaves a readable prefix; a torn last line is passed over.
Pictures lie beside it, in `figures/`, and are named in the line.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import json
import math
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from codeact import events
from codeact.errors import UsageError
from sandbox.types import CellError, Dropped, Image, Notice, Rich, Rung, Stream

FILE = "run.jsonl"
PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "application/pdf": "pdf"}
"""Binary MIME types, which outputs carry as base64."""
_OUTPUT_TYPES = {
    Stream: "stream",
    Rich: "rich",
    CellError: "error",
    Dropped: "dropped",
    Notice: "notice",
    Rung: "rung",
}


def new_run_id() -> str:
    """A name that sorts by time: `20260131-235959-1a2b3c`."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


class Journal:
    """Appends a run's events to its folder. Closed with the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._figures = 0
        try:
            folder.mkdir(parents=True, mode=0o700)
            self._file: TextIO = (folder / FILE).open("x", encoding="utf-8", errors="replace")
        except OSError as error:
            raise UsageError(
                f"{folder}: the run cannot be recorded: {error.strerror}; set CODEACT_HOME"
            ) from error

    def append(self, event: events.Event) -> None:
        """Writes one event. Raises UsageError when the disk does not take it."""
        if event.live_only:
            return
        try:
            self._file.write(json.dumps(to_json(event), ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise _unwritten(self.folder / FILE, error) from error

    def keep_picture(self, image: Image) -> Path | None:
        """Stores a picture that a cell displayed; None for what is not base64. Raises UsageError as `append` does."""
        try:
            content = base64.b64decode(image.base64, validate=False)
        except (ValueError, binascii.Error):
            return None
        self._figures += 1
        path = self.folder / "figures" / f"figure-{self._figures}.{PICTURES.get(image.mime, 'bin')}"
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise _unwritten(path, error) from error
        return path

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what the disk did not take was said by `append`
            self._file.close()


def _unwritten(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be written: {error.strerror}; free some space, or set CODEACT_HOME")


def to_json(event: events.Event) -> dict[str, Any]:
    """An event as the JSON object of the published schema."""
    head = {
        "v": events.VERSION,
        "run": event.run,
        "seq": event.seq,
        "time": round(event.time, 3),
        "type": event.type,
    }
    if event.parent is not None:
        head["parent"] = event.parent
    names = [name for name in events.field_names(type(event)) if name not in ("run", "seq", "time", "parent")]
    return head | {name: plain(getattr(event, name)) for name in names}


def plain(value: Any) -> Any:
    """Nested dataclasses as JSON values. An output says its type; a picture is left to its file."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        kind = _OUTPUT_TYPES.get(type(value))
        return {"type": kind, **fields} if kind else fields
    if isinstance(value, dict):
        return {str(k): "(picture)" if k in PICTURES else plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


def read(run: Path) -> Iterator[dict[str, Any]]:
    """The events of a run, as JSON objects, in order. `run` is a folder or a file. Raises UsageError where none is."""
    path = run / FILE if run.is_dir() else run
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # torn by a crash
                if isinstance(event, dict):
                    yield event
    except OSError as error:
        raise UsageError(f"{run}: is not a run: {os.strerror(error.errno or 0)}") from error
