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

SCRATCH = "codeact-"


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


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder for temporary files, for this user alone; removed at the end, or by `sweep` where the end never came."""
    descriptor = None
    while descriptor is None:
        folder = Path(tempfile.gettempdir(), f"{SCRATCH}{secrets.token_hex(8)}")
        folder.mkdir(mode=0o700)
        try:
            descriptor = hold(folder)
        except BaseException:
            folder.rmdir()
            raise
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def sweep() -> int:
    """Removes the scratch folders of processes that are gone; how many."""
    return sum(map(remove_unheld, Path(tempfile.gettempdir()).glob(f"{SCRATCH}{'[0-9a-f]' * 16}")))
