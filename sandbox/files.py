"""Files in and out of a sandbox, piece by piece through the bridge. Nothing from inside chooses a path on the host."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import queue
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from sandbox.bridge import Bridge, Frame, Inbox
from sandbox.errors import ConnectionLost, FileError
from sandbox.guest import frames
from sandbox.held import replacing
from sandbox.text import clean
from sandbox.types import FileInfo, size_text

PATIENCE = 60.0
"""Seconds without any progress after which a transfer is given up."""


LONGEST_NAME = 255
"""Bytes that a file name may have."""


class Files:
    """Transfers over one bridge; safe to use from several threads."""

    def __init__(self, bridge: Bridge, max_size: int) -> None:
        self._bridge = bridge
        self._max_size = max_size
        self._numbers = itertools.count(1)

    def put(self, source: BinaryIO, path: str, *, mode: int = 0o664) -> None:
        """Writes a file into the workspace, whole or not at all. Raises FileError."""
        number = next(self._numbers)
        with self._bridge.answers(number) as answers:
            try:
                self._send(number, "put", path=path, mode=mode)
                while piece := source.read(frames.CHUNK):
                    self._send(number, "write", piece)
                    with contextlib.suppress(queue.Empty):  # only a failure is told before the end
                        self._check(answers.get(0), path)
                self._send(number, "finish")
            except BaseException as error:  # Ctrl-C too, and whatever a source of the caller's raises
                with contextlib.suppress(ConnectionLost):
                    self._send(number, "abandon")
                if not isinstance(error, OSError):
                    raise
                raise unread(path, error) from error
            self._wait(answers, path)

    def put_from(self, source: Path, path: str) -> None:
        """Copies a file of the host into the workspace; a folder with all that is in it. Raises FileError."""
        try:
            if source.is_dir():
                for file in files_below(source):
                    self.put_from(file, f"{path.rstrip('/')}/{file.relative_to(source).as_posix()}")
                return
            if source.exists() and not source.is_file():
                raise OSError(errno.EINVAL, "is neither a file nor a folder")
            with source.open("rb") as file_object:
                self.put(file_object, path, mode=0o444 if is_input(path) else 0o664)
        except (OSError, ValueError) as error:
            raise unread(source, error) from error

    def put_inputs(self, inputs: Mapping[str, Path], *, mounted: frozenset[str] = frozenset()) -> None:
        """Copies files and folders of the host to `data/`, each under its name, but those that are there. Raises FileError."""
        for name, source in inputs.items():
            if name in mounted:
                continue
            try:
                self.put_from(source, f"data/{name}")
            except FileError as error:
                refused = f"{source}: was not sent into the sandbox: {error}"
                if error.__cause__ is not None:  # it failed on the host
                    raise FileError(refused) from error
                disk = size_text(self._max_size)
                raise FileError(
                    f"{refused}; where space is short, raise `disk` ({disk}), or let every user read it, so that it is mounted"
                ) from error

    def get(self, path: str, target: BinaryIO) -> int:
        """Copies a file of the workspace into `target`; its size in bytes. Raises FileError."""
        number = next(self._numbers)
        with self._bridge.answers(number) as answers:
            try:
                self._send(number, "get", path=path)
                header, _ = self._wait(answers, path)
                return self._copy(number, answers, path, header.get("size"), target)
            finally:
                with contextlib.suppress(ConnectionLost):
                    self._send(number, "close")

    def get_to(self, path: str, target: Path) -> int:
        """Copies a file of the workspace to a path of the host, whole or not at all; its size in bytes."""
        try:
            with replacing(target) as file:
                return self.get(path, file)
        except OSError as error:
            raise FileError(f"{target}: cannot be written, and was not: {error.strerror}") from error

    def list(self, path: str = "") -> tuple[FileInfo, ...]:
        """All files and folders under a folder of the workspace, with paths relative to it. Raises FileError."""
        number = next(self._numbers)
        with self._bridge.answers(number) as answers:
            self._send(number, "list", path=path)
            _, body = self._wait(answers, path or "/workspace")
        try:
            entries = json.loads(body)
        except (ValueError, RecursionError):
            entries = None
        if not isinstance(entries, list):
            raise FileError(f"{path or '/workspace'}: the sandbox sent what is not a listing")
        return tuple(_entries(entries))

    def _copy(self, number: int, answers: Inbox, path: str, size: object, target: BinaryIO) -> int:
        if type(size) is not int or size > self._max_size:
            raise FileError(f"{path}: is larger than {self._max_size} bytes")
        copied = 0
        while True:
            self._send(number, "read")
            _, piece = self._wait(answers, path)
            copied += len(piece)
            if copied > size or (not piece and copied < size):
                raise FileError(f"{path}: changed while it was read; copy it when nothing writes it")
            if not piece:
                return copied
            target.write(piece)

    def _send(self, number: int, do: str, body: bytes = b"", **fields: Any) -> None:
        self._bridge.send({"op": "file", "file": number, "do": do, **fields}, body)

    def _wait(self, answers: Inbox, path: str) -> Frame:
        try:
            frame = answers.get(PATIENCE)
        except queue.Empty:
            raise FileError(f"{path}: the sandbox does not answer") from None
        return self._check(frame, path)

    def _check(self, frame: Frame, path: str) -> Frame:
        header, _ = frame
        if header.get("op") == "lost":
            raise ConnectionLost(f"{path}: {header.get('reason')}")
        if header.get("ok") is not True:
            raise FileError(f"{path}: {clean(header.get('error')) or 'failed in the sandbox'}")
        return frame


def unread(path: Path | str, error: OSError | ValueError) -> FileError:
    """Why a file of the host could not be sent; a ValueError is of what can be no path."""
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    return FileError(f"{str(path)[:300]}: cannot be read on the host: {reason}")


def files_below(folder: Path) -> list[Path]:
    """The files in a folder and its folders, without what cannot be looked at, such as a link to a place that is closed."""
    return sorted(path for path in folder.rglob("*") if _is_file(path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def is_input(path: str) -> bool:
    """Whether a path of the workspace is that of an input, which code inside may not change."""
    parts = [part for part in path.removeprefix("/workspace/").split("/") if part not in ("", ".")]
    return len(parts) > 1 and parts[0] == "data"


def check_input_name(name: str) -> None:
    """Raises FileError where `name` is not that of a file or folder below `/workspace/data`."""
    parts = name.split("/")
    if "\0" in name or not {"", ".", ".."}.isdisjoint(parts):
        raise FileError(f"{name[:80]!r}: is no name for an input; write one such as sales.csv")
    if any(len(part.encode(errors="surrogatepass")) > LONGEST_NAME for part in parts):
        raise FileError(
            f"{name[:80]!r}...: is longer than {LONGEST_NAME} bytes; give the input a shorter name"
        )


def _entries(entries: list[Any]) -> Iterator[FileInfo]:
    for entry in entries:
        match entry:
            case {"path": str(path), "size": int(size), "kind": "file" | "folder" | "other" as kind}:
                yield FileInfo(path, size, kind)
