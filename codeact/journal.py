"""The event log on disk: one JSON line an event, written before what it says takes effect.

`run.jsonl` in the run's folder is the truth of a run. A crash leaves a readable prefix; a torn last line is passed over, and cut
off when the run goes on. Pictures lie beside it in `figures/`, other large values in `blobs/`. Whoever writes a journal
holds a lock on it, which ends with the process, however that ends.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import fcntl
import json
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codeact import events, schema
from codeact.blobs import PICTURES, Blobs
from codeact.errors import JournalError, UsageError
from sandbox.held import replacing
from sandbox.types import Image

FILE = "run.jsonl"
LOCK_SECONDS = 1.0
"""For how long a lock is tried for: whoever lists runs holds it for a moment."""

MAX_DEPTH = 100
"""How deep a field of an event may be nested."""
TOO_DEEP = "(nested too deep)"


def new_run_id() -> str:
    """A name that sorts by time: `20260131-235959-1a2b3c`."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


# -- writing -----------------------------------------------------------------------------------------------------


class Journal:
    """Appends a run's events to its folder, which is new, or with `again` that of a run that goes on. Closed with the run.

    Raises UsageError where it cannot be written, or where another process writes it.
    """

    def __init__(self, folder: Path, *, again: bool = False) -> None:
        self.folder = folder
        self._blobs = Blobs(folder)
        self._figures = len(list(figures(folder)))
        path = folder / FILE
        try:
            if not again:
                folder.mkdir(parents=True, mode=0o700)
            self._file = os.open(path, os.O_RDWR | (0 if again else os.O_CREAT | os.O_EXCL), 0o600)
        except OSError as error:
            raise UsageError(
                f"{folder}: the run cannot be recorded: {error.strerror}; set CODEACT_HOME"
            ) from error
        try:
            _lock(self._file, folder)
            if not path.exists():
                raise UsageError(f"{folder.name}: the run was deleted; see `codeact runs`")
            self.size = _whole_lines(path)
            os.ftruncate(self._file, self.size)
        except BaseException:
            os.close(self._file)
            raise

    def append(self, event: events.Event, *, sync: bool = False) -> None:
        """Writes one event; with `sync` it is on the disk and not only with the kernel when this returns.

        Raises JournalError when the disk does not take it; of the event, nothing is left then.
        """
        if event.live_only:
            return
        try:
            line = {name: self._blobs.outside(value) for name, value in to_json(event).items()}
            content = (json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n").encode(
                "utf-8", "replace"
            )
            self._write(content)
            if sync:
                os.fdatasync(self._file)
        except OSError as error:
            raise _unwritten(self.folder / FILE, error) from error

    def _write(self, content: bytes) -> None:
        written = 0
        try:
            while written < len(content):
                written += os.pwrite(self._file, content[written:], self.size + written)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += len(content)

    def keep_picture(self, image: Image) -> Path | None:
        """Stores a picture that a cell displayed; None for what is not base64. Raises JournalError as `append` does."""
        try:
            content = base64.b64decode(image.base64, validate=False)
        except (ValueError, binascii.Error):
            return None
        self._figures += 1
        path = self.folder / "figures" / f"figure-{self._figures}.{PICTURES.get(image.mime, 'bin')}"
        try:
            path.parent.mkdir(exist_ok=True)
            with replacing(path) as file:
                file.write(content)
        except OSError as error:
            raise _unwritten(path, error) from error
        self._blobs.figure(content, path)
        return path

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what the disk did not take was said by `append`
            os.close(self._file)
        self._file = -1  # the number may be another file's by now


def _lock(file: int, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{folder.name}: the run goes on in another process; wait for its end, or end that process"
                ) from None
            time.sleep(0.05)
        except OSError:
            return  # a file system without locks


def is_live(folder: Path) -> bool:
    """Whether a process writes the journal in a run's folder. Raises OSError where there is none."""
    with held(folder) as free:
        return not free


@contextlib.contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Whether nobody writes the journal in a run's folder; nobody begins to meanwhile. Raises OSError where there is none."""
    with (folder / FILE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass  # a file system without locks
        yield True


def _whole_lines(path: Path) -> int:
    """The size of a file without a torn last line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size:
            start = max(0, size - 64 * 1024)
            file.seek(start)
            end = file.read(size - start).rfind(b"\n")
            if end >= 0:
                return start + end + 1
            size = start
    return 0


def _unwritten(path: Path, error: OSError) -> JournalError:
    return JournalError(f"{path}: cannot be written: {error.strerror}; free some space, or set CODEACT_HOME")


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
    names = [name for name in events.field_names(type(event)) if name not in events.HEAD]
    return head | {name: plain(getattr(event, name)) for name in names}


def plain(value: Any, depth: int = 0) -> Any:
    """Nested dataclasses as JSON values. An output says its type. What a sandbox or a model nested deeper than any reader of
    JSON can follow is left out, and said."""
    if depth > MAX_DEPTH:
        return TOO_DEEP
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value)}
        kind = schema.TAGS.get(type(value))
        return {"type": kind, **fields} if kind else fields
    if isinstance(value, Mapping):
        return {str(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


# -- reading -----------------------------------------------------------------------------------------------------


def read(run: Path, *, pictures: bool = False) -> Iterator[dict[str, Any]]:
    """The events of a run, as JSON objects, in order. `run` is a folder or a file. With `pictures`, outputs hold theirs as
    base64; else `(picture)` stands for each. What is torn or damaged is passed over. Raises UsageError where no run is."""
    path = run / FILE if run.is_dir() else run
    blobs = Blobs(path.parent)
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(event, dict):
                    yield blobs.inside(event, pictures=pictures)
    except OSError as error:
        raise UsageError(f"{run}: is not a run: {os.strerror(error.errno or 0)}") from error


def load(run: Path) -> list[events.Event]:
    """The events of a run as they were, pictures included. Kinds of event that this version does not know are passed over.

    Raises UsageError where there is no run, or one that a newer version wrote.
    """
    found = []
    for line in read(run, pictures=True):
        version = line.get("v")
        if isinstance(version, int) and version > events.VERSION:
            raise UsageError(
                f"{run}: was written by a newer codeact (schema {version}); update to carry it on"
            )
        event = event_of(line)
        if event is not None:
            found.append(event)
    return found


def event_of(line: Mapping[str, Any]) -> events.Event | None:
    """The event that a JSON object stands for; None for what this version does not know, or cannot read."""
    kind = events.BY_TYPE.get(str(line.get("type")))
    try:
        return None if kind is None else schema.decode(kind, line)
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def figures(folder: Path) -> Iterator[Path]:
    """The pictures of a run, in the order in which they were kept."""
    found = (folder / "figures").glob("figure-*.*")
    return iter(sorted(found, key=lambda path: (len(path.stem), path.stem)))


def line_schema() -> dict[str, Any]:
    """The JSON Schema of one event, as a line of `codeact export --to jsonl`."""
    definitions: dict[str, Any] = {}
    kinds = []
    for name, kind in events.BY_TYPE.items():
        if kind.live_only:
            continue
        form = schema.object_schema(kind, definitions, tag=name)
        form["properties"]["v"] = {"enum": list(range(1, events.VERSION + 1))}
        form["required"] = ["v", "run", "seq", "time", *form["required"]]
        definitions[name] = form
        kinds.append({"$ref": f"#/$defs/{name}"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"An event of a codeact run, schema {events.VERSION}",
        "oneOf": kinds,
        "$defs": definitions,
    }
