"""A control group for one sandbox: memory, processes and processor time of all that runs in it together.

Where this process may make one below its own group (version 1), or below the nearest group that holds no process of its
own (version 2, which allows nothing else). A group is named after the process that made it, so that what a killed one
left can be told and removed.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.backends.identity import process_name, process_of
from sandbox.types import Limits

PREFIX = "codeact-"
CONTROLLERS = ("memory", "pids", "cpu")
PERIOD = 100_000
"""Microseconds in which a group may use its share of processor time."""
REMOVAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Parents:
    """Folders in which groups can be made, by controller; one for all of them in version 2. `root` is a test's."""

    version: int
    folders: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Group:
    """One group, in as many folders as it has controllers."""

    version: int
    folders: Mapping[str, Path]

    def add(self, pid: int) -> None:
        """Moves a process in; what it starts from now on is in it, too. Raises OSError."""
        for folder in set(self.folders.values()):
            (folder / "cgroup.procs").write_text(str(pid))

    def memory_used(self) -> int:
        """Bytes, without the page cache, which the kernel drops when it needs to. Raises OSError or ValueError."""
        folder = self.folders["memory"]
        used, cache = (
            ("memory.current", "inactive_file")
            if self.version == 2
            else ("memory.usage_in_bytes", "total_inactive_file")
        )
        stats = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return int((folder / used).read_text()) - int(stats.get(cache, 0))

    def remove(self) -> None:
        """Removes the group once nothing is left in it; waits a little for that."""
        deadline = time.monotonic() + REMOVAL_SECONDS
        for folder in set(self.folders.values()):
            while not _removed(folder) and time.monotonic() < deadline:
                time.sleep(0.005)

    @property
    def mounts(self) -> Iterator[tuple[Path, str]]:
        """Where the code inside looks for its limits: (folder, place inside)."""
        if self.version == 2:
            yield next(iter(self.folders.values())), "/sys/fs/cgroup"
        else:
            yield from ((folder, f"/sys/fs/cgroup/{name}") for name, folder in self.folders.items())


def make_group(parents: Parents, limits: Limits) -> Group:
    """A new, empty group with these limits. Raises OSError, and leaves nothing."""
    name = f"{PREFIX}{process_name(os.getpid())}-{uuid.uuid4().hex[:8]}"
    group = Group(parents.version, {key: folder / name for key, folder in parents.folders.items()})
    try:
        for folder in set(group.folders.values()):
            folder.mkdir()
        for controller, file, value in _settings(parents.version, limits):
            if controller in group.folders:
                _set(group.folders[controller] / file, value)
    except OSError:
        group.remove()
        raise
    return group


def find_parents(proc: Path = Path("/proc/self")) -> Parents | None:
    """Where groups can be made now, or None; tried by making one. `pids` and `cpu` may be missing, `memory` may not."""
    lines = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
    own = {name: path for _, names, path in lines for name in names.split(",")}
    mounts = list(_mounts(proc))
    folders = {}
    for controller in CONTROLLERS:
        for kind, options, root, point in mounts:
            if kind == "cgroup" and controller in options and controller in own:
                folders[controller] = _below(point, root, own[controller])
    if "memory" in folders:
        usable = {name: folder for name, folder in folders.items() if _can_make(folder)}
        return Parents(1, usable) if "memory" in usable else None
    for kind, _, root, point in mounts:
        if kind == "cgroup2" and "" in own:
            return _unified(_below(point, root, own[""]), point)
    return None


def remove_left() -> int:
    """Removes groups whose process is gone and in which nothing runs; how many."""
    parents = find_parents()
    removed = 0
    for folder in set(parents.folders.values()) if parents else ():
        for group in folder.glob(f"{PREFIX}*"):
            owner = group.name.removeprefix(PREFIX).rpartition("-")[0]
            if not process_of(owner):
                removed += _removed(group)
    return removed


def _settings(version: int, limits: Limits) -> Iterator[tuple[str, str, str]]:
    memory, pids = str(int(limits.memory)), str(int(limits.pids))
    quota = str(int(float(limits.cpus) * PERIOD))
    if version == 2:
        yield from (("memory", "memory.max", memory), ("memory", "memory.swap.max", "0"))
        yield from (("pids", "pids.max", pids), ("cpu", "cpu.max", f"{quota} {PERIOD}"))
    else:
        yield from (
            ("memory", "memory.limit_in_bytes", memory),
            ("memory", "memory.memsw.limit_in_bytes", memory),
        )
        yield from (("pids", "pids.max", pids), ("cpu", "cpu.cfs_period_us", str(PERIOD)))
        yield "cpu", "cpu.cfs_quota_us", quota


def _set(file: Path, value: str) -> None:
    if "sw" in file.name and not file.exists():  # a kernel that does not account for swap
        return
    file.write_text(value)


def _unified(own: Path, top: Path) -> Parents | None:
    """The nearest folder, upwards, that hands the controllers on to its children and lets us make one."""
    for folder in (own, *own.parents):
        with contextlib.suppress(OSError):
            handed = (folder / "cgroup.subtree_control").read_text().split()
            if {"memory", "pids"} <= set(handed) and _can_make(folder):
                return Parents(2, {name: folder for name in CONTROLLERS if name in handed})
        if folder == top:
            break
    return None


def _can_make(folder: Path) -> bool:
    """Whether a group can be made there and this process moved in and out: the right to the one is not that to the other."""
    trial = folder / f"{PREFIX}{process_name(os.getpid())}-{uuid.uuid4().hex[:8]}"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return _may_move(folder, trial)
    finally:
        _removed(trial)


def _may_move(*folders: Path) -> bool:
    return all(os.access(folder / "cgroup.procs", os.W_OK) for folder in folders)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _below(point: Path, root: str, path: str) -> Path:
    """Where the group `path` lies under a mount that shows the groups from `root` on."""
    return point / os.path.relpath(path, root) if root != "/" else point / path.lstrip("/")


def _mounts(proc: Path) -> Iterator[tuple[str, set[str], str, Path]]:
    """(kind, options, root, mount point) of each mount of control groups."""
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind.startswith("cgroup"):
            fields = before.split()
            yield kind, set(options.split(",")), fields[3], Path(fields[4].replace("\\040", " "))
