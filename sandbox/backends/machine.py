"""What bubblewrap can do on this machine, found out by trying; what it cannot is declared."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.backends import cgroups
from sandbox.backends.users import Users, find_users

COUNTS_IN_NAMESPACES = (5, 14)
"""The Linux since which a limit of processes counts those of one user namespace, not all of a user."""


@dataclass(frozen=True, slots=True)
class Machine:
    """`program` is bubblewrap's path; `parents` is where control groups can be made; `counts_processes` is whether a
    limit of processes can be had without."""

    program: str | None
    users: Users
    parents: cgroups.Parents | None
    counts_processes: bool

    @property
    def unenforced(self) -> Mapping[str, str]:
        """What a sandbox here cannot enforce → why, in one line."""
        found = {}
        groups = self.parents.folders if self.parents else {}
        reason = "no control group can be made here"
        if "memory" not in groups:
            found["memory"] = f"{reason}: memory is limited for each process, not for all together"
        if "pids" not in groups and not self.counts_processes:
            found["pids"] = f"{reason}, and this kernel is older than Linux 5.14: processes are not limited"
        if "cpu" not in groups:
            found["cpus"] = f"{reason}: processor time is not limited"
        if self.users.shared:
            found["users"] = (
                "only one user can be mapped here (no newuidmap, or no range in /etc/subuid): "
                "the code runs as the same user as its supervisor, in namespaces of its own"
            )
        return found


def look() -> Machine:
    parents = cgroups.find_parents()
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    release = (int(found[1]), int(found[2])) if found else (0, 0)
    has_pids = parents is not None and "pids" in parents.folders
    return Machine(
        shutil.which("bwrap"), find_users(), parents, not has_pids and release >= COUNTS_IN_NAMESPACES
    )
