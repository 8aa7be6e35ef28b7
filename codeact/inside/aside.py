"""Files of the workspace, laid aside while code is executed again, and put back as they were.

What code wrote is its last state and stays so, whatever the same code writes now; while it runs again, it finds the
workspace as it was at first. What is written again just as it was is kept, since variables may hold it open.
"""

import filecmp
import os
import shutil

ROOT = "/workspace"
ASIDE = ".aside"
STAYS = {"data", ".codeact", ".packages", ".outputs", ".results", ASIDE}

AT_FIRST = "out"
"""The folder that every workspace has when it is new."""


def keep(root: str = ROOT) -> bool:
    """Lays the files aside; False where there is no room for them twice, and they stay."""
    aside = os.path.join(root, ASIDE)
    if os.path.lexists(aside) or _size(root) > _free(root):
        return False
    os.mkdir(aside)
    for name in os.listdir(root):
        if name not in STAYS:
            _move(os.path.join(root, name), os.path.join(aside, name))
    os.makedirs(os.path.join(root, AT_FIRST), exist_ok=True)
    return True


def back(root: str = ROOT) -> None:
    """Puts back what was laid aside, and removes what was not there then."""
    aside = os.path.join(root, ASIDE)
    if not os.path.isdir(aside):
        return
    for name in os.listdir(root):
        if name not in STAYS and not os.path.lexists(os.path.join(aside, name)):
            _remove(os.path.join(root, name))
    _put_back(aside, root)
    shutil.rmtree(aside, ignore_errors=True)


def _put_back(aside: str, root: str) -> None:
    for name in os.listdir(aside):
        kept, place = os.path.join(aside, name), os.path.join(root, name)
        if _is_folder(kept) and _is_folder(place):
            for extra in set(os.listdir(place)) - set(os.listdir(kept)):
                _remove(os.path.join(place, extra))
            _put_back(kept, place)
        elif not (_is_file(kept) and _is_file(place) and filecmp.cmp(kept, place, shallow=False)):
            _remove(place)
            _move(kept, place)


def _move(source: str, target: str) -> None:
    """Moves what is the agent's own; of a folder that is not, what it holds."""
    try:
        os.rename(source, target)
    except OSError:
        if _is_folder(source):
            os.makedirs(target, exist_ok=True)
            for name in os.listdir(source):
                _move(os.path.join(source, name), os.path.join(target, name))


def _remove(path: str) -> None:
    try:
        if _is_folder(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.remove(path)
    except OSError:
        pass  # not the agent's own


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _size(root: str) -> int:
    total = 0
    for name in os.listdir(root):
        if name not in STAYS:
            top = os.path.join(root, name)
            total += os.lstat(top).st_size
            for folder, _, files in os.walk(top):
                total += sum(os.lstat(os.path.join(folder, file)).st_size for file in files)
    return total


def _free(root: str) -> int:
    found = os.statvfs(root)
    return found.f_bavail * found.f_frsize
