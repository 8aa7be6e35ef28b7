"""Programs of the host that are installed where they are missing, with apt."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from sandbox.errors import SandboxError

_APT = """
export DEBIAN_FRONTEND=noninteractive
guard=/usr/sbin/policy-rc.d
if [ ! -e "$guard" ]; then
    trap 'rm -f "$guard"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\\nexit 101\\n' > "$guard" && chmod 755 "$guard"
fi
apt-get --quiet --yes --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" </dev/null
"""
"""`policy-rc.d` is Debian's way of saying that an installation must start no service: 101 forbids it."""
_SEARCH = os.pathsep.join(["/usr/sbin", "/sbin"])


def find_program(name: str) -> str | None:
    """Path of a program; the folders of administration programs count, which are not on every user's PATH."""
    return shutil.which(name) or shutil.which(name, path=_SEARCH)


def as_root(command: Sequence[str]) -> list[str]:
    """The command that runs `command` as root: itself where we are root, else with sudo."""
    return list(command) if os.geteuid() == 0 else ["sudo", *command]


def gain_root(purpose: str) -> None:
    """Makes sure that `as_root` works; sudo may ask for a password. Raises SandboxError where it refuses."""
    if os.geteuid() == 0:
        return
    if not shutil.which("sudo") or subprocess.run(["sudo", "-v"], check=False).returncode:
        raise SandboxError(
            f"{purpose} needs root, and sudo is missing or refuses: start Docker, or set DOCKER_HOST"
        )


def install_packages(
    programs: Mapping[str, str],
    on_progress: Callable[[str], None],
    *,
    extra: Sequence[str] = (),
    note: str = "",
) -> None:
    """Installs the packages of `programs` (program → Debian package) that are not there, and `extra` with them.

    `note` is said with the line that announces it. Raises SandboxError where apt is not there or fails.
    """
    missing = [package for program, package in programs.items() if not find_program(program)]
    if not missing:
        return
    names = " ".join(missing)
    if not shutil.which("apt-get"):
        raise SandboxError(
            f"{names} is not installed, and there is no apt-get to install it: install {names}"
        )
    on_progress(f"installing {names} with apt-get" + (f" ({note})" if note else ""))
    gain_root(f"the installation of {names}")
    packages = [*missing, *extra]
    problem = _apt("install", *packages) and (_apt("update") or _apt("install", *packages))
    if problem:
        raise SandboxError(f"{names} could not be installed: {problem}: run `sudo apt-get install {names}`")


def _apt(action: str, *packages: str) -> str:
    """Runs apt-get; returns the last line of what it complains of, or an empty string."""
    command = as_root(["sh", "-c", _APT, "apt", action, *packages])
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"apt-get {action} failed"])[-1]
