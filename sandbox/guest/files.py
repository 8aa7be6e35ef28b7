"""Files in and out of the workspace. No link is followed, nothing but regular files is opened, nothing blocks."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

MAX_HOLE = 1024 * 1024
"""Bytes that a file may be larger than what it holds; a sparse file costs the host its full size."""
MAX_LISTED = 50_000

INPUTS = "data"
"""The folder that the kernel may read and not write."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """Why a file was not carried, in words for the user."""


class Files:
    """The workspace at `root`, and the transfers under way by their number."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._writing: dict[int, Incoming] = {}
        self._reading: dict[int, BinaryIO] = {}

    def put(self, number: int, path: str, mode: int) -> None:
        self._writing[number] = Incoming(self._root, path, mode)

    def write(self, number: int, data: bytes) -> None:
        incoming = self._writing.get(number)
        if incoming is None:
            return  # its failure has been told
        try:
            incoming.file.write(data)
        except OSError as error:
            self.abandon(number)
            raise Refused(f"cannot be written: {error.strerror}") from None

    def finish(self, number: int) -> None:
        incoming = self._writing.pop(number, None)
        if incoming is not None:
            incoming.finish()

    def abandon(self, number: int) -> None:
        incoming = self._writing.pop(number, None)
        if incoming is not None:
            incoming.abandon()

    def get(self, number: int, path: str) -> int:
        """Opens a file to be read piece by piece; its size."""
        with _parent(self._root, path) as (folder, name):
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except OSError as error:
                raise Refused(_reason(error)) from None
        file = os.fdopen(descriptor, "rb")
        try:
            size = _checked_size(os.fstat(descriptor))
        except Refused:
            file.close()
            raise
        self._reading[number] = file
        return size

    def read(self, number: int, size: int) -> bytes:
        file = self._reading.get(number)
        if file is None:
            raise Refused("is not open")
        data = file.read(size)
        if not data:
            self.close(number)
        return data

    def close(self, number: int) -> None:
        file = self._reading.pop(number, None)
        if file is not None:
            file.close()

    def list(self, path: str) -> list[dict[str, Any]]:
        """All that lies under a folder, links as they are. Names that are not UTF-8 keep their bytes as surrogates."""
        top = os.path.join(self._root, *_parts(path)) if path.strip("/") not in ("", ".") else self._root
        try:
            descriptor = os.open(top, _FOLDER)
        except OSError as error:
            raise Refused(_reason(error)) from None
        found: list[dict[str, Any]] = []
        try:
            for folder, folders, files, here in os.fwalk(".", dir_fd=descriptor, follow_symlinks=False):
                for name in sorted(folders) + sorted(files):
                    with contextlib.suppress(OSError):
                        info = os.stat(name, dir_fd=here, follow_symlinks=False)
                        entry = os.path.normpath(os.path.join(folder, name))
                        found.append({"path": entry, "size": info.st_size, "kind": _kind(info.st_mode)})
                if len(found) > MAX_LISTED:
                    raise Refused(f"holds more than {MAX_LISTED} files")
        finally:
            os.close(descriptor)
        return found


class Incoming:
    """A file being written: under another name until it is whole."""

    def __init__(self, root: str, path: str, mode: int) -> None:
        self._path, self._root, self._mode = path, root, mode
        with _parent(root, path, create=True) as (folder, name):
            self._temporary = f".{name[:100]}.incoming"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                self.file = os.fdopen(os.open(self._temporary, flags, mode, dir_fd=folder), "wb")
            except OSError as error:
                raise Refused(_reason(error)) from None

    def finish(self) -> None:
        try:
            self.file.close()
            with _parent(self._root, self._path) as (folder, name):
                os.chmod(self._temporary, self._mode, dir_fd=folder)
                os.rename(self._temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            self.abandon()
            raise Refused(_reason(error)) from None

    def abandon(self) -> None:
        with contextlib.suppress(OSError, Refused):
            self.file.close()
        with contextlib.suppress(OSError, Refused), _parent(self._root, self._path) as (folder, _):
            os.unlink(self._temporary, dir_fd=folder)


@contextlib.contextmanager
def _parent(root: str, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that holds `path`, opened without following a link, and the last name in it."""
    *folders, name = _parts(path)
    here = os.open(root, _FOLDER)
    try:
        for part in folders:
            try:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755 if folders[0] == INPUTS else 0o775, dir_fd=here)
                below = os.open(part, _FOLDER, dir_fd=here)
            except OSError as error:
                raise Refused(_reason(error)) from None
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def _parts(path: str) -> list[str]:
    parts = [part for part in path.removeprefix("/workspace/").split("/") if part not in ("", ".")]
    if not parts or ".." in parts or path.startswith("/") and not path.startswith("/workspace/"):
        raise Refused("is not a path within /workspace")
    if "\0" in path:
        raise Refused("holds a NUL character")
    return parts


def _checked_size(info: os.stat_result) -> int:
    if not stat.S_ISREG(info.st_mode):
        raise Refused(f"is a {_kind(info.st_mode)}, not a file")
    if info.st_size - info.st_blocks * 512 > MAX_HOLE:
        raise Refused(f"is sparse: it says {info.st_size} bytes and holds {info.st_blocks * 512}")
    return info.st_size


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "is not there"
    if isinstance(error, PermissionError):
        return "may not be opened: the code in the sandbox took the permission away"
    if isinstance(error, NotADirectoryError) or error.errno == 40:  # ELOOP: a link where O_NOFOLLOW met it
        return "is a link, or lies behind one"
    return f"cannot be opened: {error.strerror}"
