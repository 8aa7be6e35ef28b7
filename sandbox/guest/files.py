"""Files in and out of the workspace. No link is followed, nothing but regular files is opened, nothing blocks."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

from . import frames

MAX_HOLE = 1024 * 1024
"""Bytes that a file may be larger than what it holds; a sparse file costs the host its full size."""
MAX_LISTED = 50_000
MAX_DEPTH = 40
"""Folders within folders that a listing goes into."""

INPUTS = "data"
"""The folder that the kernel may read and not write."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Refused(Exception):
    """Why a file was not carried, in words for the user."""


class Files:
    """The workspace at `root`, and the transfers under way by their number."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._writing: dict[int, Incoming] = {}
        self._reading: dict[int, BinaryIO] = {}

    def serve(self, request: dict[str, Any], body: bytes) -> frames.Frame | None:
        """Does what the host asks; the answer to it, where there is one."""
        try:
            return self._serve(str(request["do"]), int(request["file"]), request, body)
        except Refused as refusal:
            return {"error": str(refusal)}, b""
        except OSError as error:
            return {"error": f"failed: {error.strerror}"}, b""
        except ValueError:
            return {"error": "is not a name that a file can have"}, b""

    def _serve(self, do: str, number: int, request: dict[str, Any], body: bytes) -> frames.Frame | None:
        path = str(request.get("path", ""))
        match do:
            case "put":
                self._writing[number] = Incoming(self._root, path, int(request["mode"]))
            case "write":
                self._write(number, body)
            case "finish":
                incoming = self._writing.pop(number, None)
                if incoming is not None:  # else its failure has been told
                    incoming.finish()
                    return {"ok": True}, b""
            case "abandon":
                self._abandon(number)
            case "get":
                return {"ok": True, "size": self._open(number, path)}, b""
            case "read":
                return {"ok": True}, self._reading[number].read(frames.CHUNK)
            case "close":
                file = self._reading.pop(number, None)
                if file is not None:
                    file.close()
            case "list":
                entries = json.dumps(self.list(path)).encode()
                if len(entries) > frames.MAX_BODY:
                    raise Refused("holds more names than can be listed at once: list its folders one by one")
                return {"ok": True}, entries
        return None

    def list(self, path: str) -> list[dict[str, Any]]:
        """All that lies under a folder, links as they are. Names that are not UTF-8 keep their bytes as surrogates."""
        found: list[dict[str, Any]] = []
        with contextlib.ExitStack() as stack:
            if path.strip("/") in ("", ".", "workspace"):
                place, name = None, self._root
            else:
                place, name = stack.enter_context(_parent(self._root, path))
            try:
                folder = os.open(name, _FOLDER, dir_fd=place)
            except OSError as error:
                raise Refused(_reason(error)) from None
            _walk(folder, "", 0, found)
        return found

    def _write(self, number: int, data: bytes) -> None:
        incoming = self._writing.get(number)
        if incoming is None:
            return  # its failure has been told
        try:
            incoming.file.write(data)
        except OSError as error:
            self._abandon(number)
            raise Refused(f"cannot be written: {error.strerror}") from None

    def _abandon(self, number: int) -> None:
        incoming = self._writing.pop(number, None)
        if incoming is not None:
            incoming.abandon()

    def _open(self, number: int, path: str) -> int:
        """Opens a file to be read piece by piece; its size."""
        with _parent(self._root, path) as (folder, name):
            try:
                descriptor = os.open(name, _READ, dir_fd=folder)
            except OSError as error:
                raise Refused(_reason(error)) from None
        try:
            size = _checked_size(os.fstat(descriptor))
        except Refused:
            os.close(descriptor)
            raise
        self._reading[number] = os.fdopen(descriptor, "rb")
        return size


class Incoming:
    """A file being written: under another name until it is whole."""

    def __init__(self, root: str, path: str, mode: int) -> None:
        self._path, self._root, self._mode = path, root, mode
        self._temporary = f".{secrets.token_hex(8)}.incoming"
        with _parent(root, path, create=True) as (folder, _):
            try:
                descriptor = os.open(self._temporary, _NEW, 0o600, dir_fd=folder)
            except OSError as error:
                raise Refused(_reason(error)) from None
        self.file = os.fdopen(descriptor, "wb")

    def finish(self) -> None:
        try:
            self.file.flush()
            # of the file itself: in a folder of the agent's, its name may have become a link to a file of ours
            os.fchmod(self.file.fileno(), self._mode)
            self.file.close()
            with _parent(self._root, self._path) as (folder, name):
                os.rename(self._temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            self.abandon()
            raise Refused(_reason(error)) from None

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError, Refused), _parent(self._root, self._path) as (folder, _):
            os.unlink(self._temporary, dir_fd=folder)


def _walk(folder: int, prefix: str, depth: int, found: list[dict[str, Any]]) -> None:
    """Adds what lies in an open folder, which it closes. A folder that may not be read is listed without its content."""
    try:
        for name in sorted(os.listdir(folder)):
            with contextlib.suppress(OSError):
                info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                found.append({"path": prefix + name, "size": info.st_size, "kind": _kind(info.st_mode)})
                if stat.S_ISDIR(info.st_mode) and depth < MAX_DEPTH:
                    _walk(os.open(name, _FOLDER, dir_fd=folder), f"{prefix}{name}/", depth + 1, found)
            if len(found) > MAX_LISTED:
                raise Refused(f"holds more than {MAX_LISTED} files")
    finally:
        os.close(folder)


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
    inside = path.removeprefix("/workspace/")
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or inside.startswith("/"):
        raise Refused("is not a path within /workspace")
    if "\0" in path:
        raise Refused("holds a NUL character")
    return parts


def _checked_size(info: os.stat_result) -> int:
    if not stat.S_ISREG(info.st_mode):
        raise Refused(f"is {_KINDS.get(stat.S_IFMT(info.st_mode), 'something else')}, not a file")
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
    if isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP:
        return "is a link, or lies behind one"
    if error.errno == errno.ENXIO:
        return "is a socket, not a file"
    return f"failed: {error.strerror}"
