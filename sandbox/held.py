"""Files and folders that are somebody's as long as their process lives: it holds a lock on them, which the kernel lets go of.

Unlike a number of a process in a name, a lock cannot be mistaken for another process's, and holds across namespaces.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

SCRATCH = "codeact-"
PART = ".part-"
NUMBER = "[0-9a-f]" * 16


def hold(path: Path) -> int | None:
    """A descriptor that holds what was just made at `path`; None where it was removed before it could be held.

    Closing the descriptor lets go of it. Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.samestat(path.lstat(), os.fstat(descriptor)):
            return descriptor
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def remove_unheld(path: Path) -> bool:
    """Removes a file or a folder of ours that nobody holds; whether it did."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # gone, or somebody else's
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid != os.getuid():
            return False
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def new_folder(parent: Path, prefix: str = PART) -> tuple[Path, int]:
    """A new folder, for this user alone, and the descriptor that holds it. Raises OSError."""
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        try:
            descriptor = hold(folder)
        except BaseException:
            folder.rmdir()
            raise
        if descriptor is not None:
            return folder, descriptor


@contextlib.contextmanager
def part_folder(parent: Path, prefix: str = PART) -> Iterator[Path]:
    """A new folder for what is not whole yet; at the end it is gone, or has another name."""
    folder, descriptor = new_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


@contextlib.contextmanager
def part_file(parent: Path, mode: int = 0o666) -> Iterator[tuple[Path, BinaryIO]]:
    """The same as a file that is open for writing, to be flushed before it gets its name. Raises OSError."""
    descriptor = None
    while descriptor is None:
        path = parent / f"{PART}{secrets.token_hex(8)}"
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb"
        ) as file:
            try:
                descriptor = hold(path)
                if descriptor is not None:
                    yield path, file
            finally:
                path.unlink(missing_ok=True)
                if descriptor is not None:
                    os.close(descriptor)


@contextlib.contextmanager
def replacing(target: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file that takes the place of `target` at the end, whole; else it is gone, and `target` as it was. Raises OSError."""
    with part_file(target.absolute().parent, mode) as (part, file):
        yield file
        file.flush()
        part.replace(target)


def scratch_folder() -> contextlib.AbstractContextManager[Path]:
    """A new folder for temporary files; removed at the end, or by `sweep` where the end never came."""
    return part_folder(Path(tempfile.gettempdir()), SCRATCH)


def sweep() -> int:
    """Removes the scratch folders of processes that are gone; how many."""
    return sum(map(remove_unheld, Path(tempfile.gettempdir()).glob(f"{SCRATCH}{NUMBER}")))


def sweep_parts(*folders: Path) -> int:
    """Removes what was not whole in these folders when its process went; how many files and folders."""
    return sum(remove_unheld(path) for folder in folders for path in folder.glob(f"{PART}{NUMBER}*"))
