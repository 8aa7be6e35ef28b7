"""Podman behind its Docker-compatible socket: what it takes in another form than Docker, and what it does not take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import docker

from sandbox.backends import seccomp
from sandbox.backends.common import FOLDERS
from sandbox.errors import StartError
from sandbox.types import Limits

PROCESSES = 32768
"""Of a user in all: far above any limit of `pids`, and no more than each Linux allows. Without one, Podman asks for a
million as root, which a service that may not raise its own limits is refused."""
FILES = "Podman takes no number of files for folders in memory: they are limited by memory alone"
FILTER = "Podman reads the filter of system calls on its own machine, where ours is not: its default one is applied"


def unenforced(*, local: bool) -> Mapping[str, str]:
    return {"files": FILES} if local else {"files": FILES, "seccomp": FILTER}


def check_runtime(wanted: str | None, default: str) -> None:
    """Podman's Docker-compatible socket passes over the runtime that it is given. Raises StartError."""
    if wanted and wanted != default:
        raise StartError(
            f"runtime {wanted!r} cannot be had through Podman's Docker-compatible socket, which runs {default or 'its own'}: "
            f"set `runtime` in Podman's containers.conf, or use Docker"
        )


def adapted(settings: Mapping[str, Any], limits: Limits, *, local: bool, rootless: bool) -> dict[str, Any]:
    """Settings of a container for Docker as Podman takes them."""
    options = [option for option in settings["security_opt"] if not option.startswith("seccomp=")]
    limited = list(settings["ulimits"])
    if not rootless:
        limited.append(docker.types.Ulimit(name="nproc", soft=PROCESSES, hard=PROCESSES))
    return {
        **settings,
        "security_opt": [*options, f"seccomp={seccomp.PROFILE}"] if local else options,
        "ulimits": limited,
        # `U`: owned by the user of the container, which is the supervisor
        "tmpfs": {
            folder.place: f"{folder.flags},size={folder.size or limits.disk},mode={folder.mode}{',U' if folder.owned else ''}"
            for folder in FOLDERS
        },
    }
