"""What every sandbox has, whatever starts it: its programs, its folders, its environment."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.backends.users import AGENT, GROUP, SUPERVISOR
from sandbox.types import Limits

PYTHON = "/opt/venv/bin/python"
# -P: the working folder is the agent's, and no file in it may pass for a module of ours
AGENT_ARGV = (PYTHON, "-P", "-S")
RELAY_ARGV = (PYTHON, "-P", "-S", "-m", "sandbox_guest.relay")
SUPERVISOR_USER = f"{SUPERVISOR}:{GROUP}"
AGENT_USER = f"{AGENT}:{GROUP}"
LEASE = 60.0
"""Seconds without a host after which a sandbox ends by itself."""
OPEN_FILES = 1024


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder in memory. `size` is that of a limit where none is given; `owned` is whether it is the supervisor's."""

    place: str
    mode: str
    size: str = ""
    owned: bool = True
    executable: bool = False

    def options(self, limits: Limits, *, owners: bool = True) -> str:
        """As `mount` takes them; `owners` is whether the sandbox has users of its own."""
        size = self.size or f"{limits.disk},nr_inodes={limits.files}"
        owner = f",uid={SUPERVISOR},gid={GROUP}" if self.owned and owners else ""
        return f"size={size},mode={self.mode}{owner}"

    @property
    def flags(self) -> str:
        return f"rw,nosuid,nodev,{'exec' if self.executable else 'noexec'}"


FOLDERS = (
    # runc gives a tmpfs the mode that the folder has in the image; the two are kept the same
    Folder("/tmp", "1777", size="64m", owned=False),  # noqa: S108
    Folder("/run/k", "770", size="1m"),
    Folder("/run/s", "700", size="1m"),
    # sticky, and the supervisor's: the agent may not move what the supervisor made
    Folder("/workspace", "3770", executable=True),
    Folder("/workspace/data", "755"),
)
SHARED_MEMORY = Folder("/dev/shm", "1777", size="64m", owned=False)  # noqa: S108


def supervisor_argv(lease: float, *, network: bool) -> list[str]:
    """With `network` it listens on loopback for connections, and carries them to the host."""
    options = ["--network"] if network else []
    return [PYTHON, "-P", "-m", "sandbox_guest.supervisor", "--lease", str(lease), *options]


def environment() -> dict[str, str]:
    """All that is set inside beside what the image sets; nothing of the host's."""
    return {
        "HOME": "/tmp",  # noqa: S108
        "LANG": "C.UTF-8",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": "/opt/sandbox",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def mountable(inputs: Mapping[str, Path]) -> dict[str, Path]:
    """The inputs that can be mounted; the others are sent. One in a folder is sent: an engine would make the folder, and own it."""
    return {name: path for name, path in inputs.items() if "/" not in name and readable_by_all(path)}


def readable_by_all(path: Path) -> bool:
    """Whether another user may read a file, or a folder with all in it: what is not is sent through the bridge by us, who may."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            return bool(mode & 0o004)
        with os.scandir(path) as inside:
            return mode & 0o005 == 0o005 and all(
                each.is_symlink() or readable_by_all(Path(each.path)) for each in inside
            )
    except (OSError, ValueError):
        return False
