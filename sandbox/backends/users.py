"""The users of a bubblewrap sandbox, as users of this machine: which can be had, and how they are mapped."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import StartError

SUPERVISOR, AGENT, GROUP = 10001, 10002, 10001
INSIDE = (SUPERVISOR, AGENT)
SPARE = 0x7000_0000
"""The first of the numbers on a machine that no user, container or service is given (systemd's list of them says so)."""
FIRST_UNUSED, UNUSABLE = 65_000, 2
"""Of the first 65,536 numbers, those from here on are hardly given to anybody, and the last two are nobody's own."""

Extents = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Users:
    """(number inside, number outside) of users and of groups; 0 inside is the one who starts the sandbox.

    `shared` is whether there is no other: supervisor and agent are then the same user of this machine.
    """

    uids: Extents
    gids: Extents

    @property
    def shared(self) -> bool:
        return len(self.uids) == 1

    def write(self, pid: int) -> None:
        """Maps them in the user namespace of a process. Raises StartError."""
        if self.shared:
            Path(f"/proc/{pid}/setgroups").write_text("deny")
        if self.shared or os.geteuid() == 0:
            Path(f"/proc/{pid}/gid_map").write_text(_lines(self.gids))
            Path(f"/proc/{pid}/uid_map").write_text(_lines(self.uids))
            return
        _mapped("newgidmap", pid, self.gids)
        _mapped("newuidmap", pid, self.uids)


def find_users() -> Users:
    """The users that this process may map: two more where it may, else itself alone."""
    own_uid, own_gid = os.geteuid(), os.getegid()
    alone = Users(((0, own_uid),), ((0, own_gid),))
    if own_uid == 0:
        spare_uid, spare_gid = (_spare(Path("/proc/self", file)) for file in ("uid_map", "gid_map"))
        if spare_uid is None or spare_gid is None:
            return alone
        uids, gids = spare_uid, spare_gid
    elif shutil.which("newuidmap") and shutil.which("newgidmap"):
        names = (str(own_uid), _user_name(own_uid))
        first_uid, first_gid = (_range(Path("/etc", file), names) for file in ("subuid", "subgid"))
        if first_uid is None or first_gid is None:
            return alone
        uids, gids = first_uid, first_gid
    else:
        return alone
    return Users(
        ((0, own_uid), *((inside, uids + n) for n, inside in enumerate(INSIDE))),
        ((0, own_gid), (GROUP, gids)),
    )


def _spare(file: Path) -> int | None:
    """`SPARE`, or where this user namespace lacks it, as a container's of a user does, numbers at the end of those it has."""
    extents = [(int(start), int(count)) for start, _, count in map(str.split, file.read_text().splitlines())]
    if any(start <= SPARE and SPARE + len(INSIDE) <= start + count for start, count in extents):
        return SPARE
    start, count = max(extents)
    first = start + count - len(INSIDE) - UNUSABLE
    return first if first >= max(start, FIRST_UNUSED) else None


def _range(file: Path, names: Sequence[str]) -> int | None:
    """The start of a range of numbers, wide enough, that the file gives to one of these names."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, numbers = line.partition(":")
        start, _, count = numbers.partition(":")
        if name in names and start.isdigit() and count.strip().isdigit() and int(count) >= len(INSIDE):
            return int(start)
    return None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _lines(extents: Extents) -> str:
    return "".join(f"{inside} {outside} 1\n" for inside, outside in extents)


def _mapped(program: str, pid: int, extents: Extents) -> None:
    numbers = [str(number) for inside, outside in extents for number in (inside, outside, 1)]
    done = subprocess.run([program, str(pid), *numbers], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartError(
            f"the sandbox did not start: {done.stderr.strip()[:300]}: check /etc/subuid and /etc/subgid"
        )
