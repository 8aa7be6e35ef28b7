"""A Docker daemon of our own, for machines where none runs: its data, socket and log lie in the user's cache.

It has no bridge network and touches no firewall rule, because sandboxes have no network; it shares nothing with
another daemon of the machine. Whatever a killed daemon left (processes, mounts, sockets) is cleared away first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from sandbox.errors import EngineError
from sandbox.packages import as_root, find_program, gain_root, install_packages
from sandbox.probe import ping
from sandbox.processes import descendants, processes_naming

START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOG_LINES = 5
GVISOR = "runsc"
GVISOR_OPTIONS = ("--platform=ptrace", "--ignore-cgroups", "--network=none")
_POLL_SECONDS = 0.05
_SOCKET_LIMIT = 107
_LONGEST_SOCKET = "/exec/containerd/containerd.sock.ttrpc"


@dataclass(frozen=True, slots=True)
class Places:
    """Where the private engine keeps what: `home` (images, log, lock) and `run` (sockets, state of this boot)."""

    home: Path
    run: Path

    @classmethod
    def for_user(cls) -> Places:
        """In the user's cache; `run` moves to a short path where sockets would not fit into the kernel's 107 bytes."""
        home = user_cache_path("codeact") / "engine"
        run = home / "run"
        if len(os.fsencode(f"{run}{_LONGEST_SOCKET}")) > _SOCKET_LIMIT:
            parent = "/run" if os.access("/run", os.W_OK) else "/tmp"  # noqa: S108 - checked to be ours when used
            run = Path(parent, f"codeact-{os.getuid()}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:8]}")
        return cls(home, run)

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "dockerd.log"

    @property
    def socket(self) -> Path:
        return self.run / "docker.sock"

    @property
    def pid_file(self) -> Path:
        return self.run / "dockerd.pid"

    @property
    def exec_root(self) -> Path:
        return self.run / "exec"


def start_private(places: Places, on_progress: Callable[[str], None]) -> None:
    """Starts the daemon and returns when it answers; returns at once where it runs. Raises EngineError."""
    _make_private(places.home)
    with _locked(places):
        _make_private(places.run)
        if _daemon(places) is not None and ping(places.socket) is None:
            return
        install_packages(
            {"dockerd": "docker.io"},
            on_progress,
            note="its service is not started; a private daemon is, without one",
        )
        _sweep(places)
        gain_root("a private container engine")
        on_progress(f"starting a private container engine in {places.home}")
        _launch(places)


def stop_private(places: Places) -> bool:
    """Ends the daemon: politely, then by force. Returns whether there was one to end. Raises EngineError."""
    if not places.home.is_dir():
        return False
    with _locked(places):
        pid = _daemon(places)
        if pid is not None:
            _signal(pid, signal.SIGTERM)
            _wait(lambda: _daemon(places) is None, STOP_SECONDS)
        left = _sweep(places)
        return pid is not None or left


def _make_private(folder: Path) -> None:
    """A folder that only this user can enter; one that somebody else prepared is refused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise EngineError(
            f"{folder} belongs to somebody else: remove it, or set XDG_CACHE_HOME to a folder of yours"
        )
    folder.chmod(0o700)


@contextmanager
def _locked(places: Places) -> Iterator[None]:
    with (places.home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _daemon(places: Places) -> int | None:
    """The id of our running dockerd. The pid file alone proves nothing: ids are used again."""
    try:
        pid = int(places.pid_file.read_text("ascii"))
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(_data_option(places)) in command else None


def _launch(places: Places) -> None:
    command = [find_program("dockerd") or "dockerd", *_options(places), *_runtimes(places)]
    with places.log.open("wb") as log:
        if os.geteuid() == 0:
            daemon = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        else:
            # sudo knows by the terminal whom it has asked already, so only what it starts may leave the terminal
            command = ["sudo", "-n", "setsid", "--wait", *command]
            daemon = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )
    _wait(lambda: daemon.poll() is not None or ping(places.socket) is None, START_SECONDS)
    if daemon.poll() is not None:
        raise EngineError(f"the private engine ended at once: {_last_words(places)}")
    if ping(places.socket) is not None:
        _sweep(places)
        daemon.wait()
        raise EngineError(
            f"the private engine gave no answer in {START_SECONDS:.0f} s: {_last_words(places)}"
        )
    # it outlives this process: without this, Python warns that a child was not waited for
    daemon.returncode = 0


def _options(places: Places) -> list[str]:
    name = f"codeact-{hashlib.sha256(os.fsencode(places.home)).hexdigest()[:12]}"
    return [
        _data_option(places),
        f"--exec-root={places.exec_root}",
        f"--pidfile={places.pid_file}",
        f"--host=unix://{places.socket}",
        f"--group={os.getgid()}",
        "--log-level=warn",
        "--iptables=false",
        "--ip6tables=false",
        "--bridge=none",
        "--ip-forward=false",
        "--ip-masq=false",
        # a containerd of the machine is shared by all daemons that find it: keep apart from theirs
        f"--containerd-namespace={name}",
        f"--containerd-plugins-namespace={name}-plugins",
    ]


def _runtimes(places: Places) -> list[str]:
    """gVisor, where it is installed, as it works without privileges over the machine's control groups or network."""
    program = find_program(GVISOR)
    if program is None:
        return []
    script = places.home / GVISOR
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(program)} {" ".join(GVISOR_OPTIONS)} "$@"\n', "utf-8")
    script.chmod(0o700)
    return [f"--add-runtime={GVISOR}={script}"]


def _data_option(places: Places) -> str:
    return f"--data-root={places.data}"


def _last_words(places: Places) -> str:
    lines = places.log.read_text("utf-8", "replace").strip().splitlines()
    return " | ".join(lines[-LOG_LINES:]) or "its log is empty"


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    subprocess.run(as_root(["kill", f"-{number.value}", str(pid)]), capture_output=True, check=False)


def _sweep(places: Places) -> bool:
    """Removes what a daemon left: processes, mounts, sockets, state. Images stay. Returns whether a process was left."""
    left = processes_naming(str(places.exec_root))
    for pid in sorted(left | descendants(left)):
        _signal(pid, signal.SIGKILL)
    if not _wait(lambda: not processes_naming(str(places.exec_root)), STOP_SECONDS):
        raise EngineError(
            f"the private engine's processes do not end ({sorted(left)}): end them, then try again"
        )
    for mount in _mounts_below(places.home, places.run):
        subprocess.run(as_root(["umount", "--lazy", mount]), capture_output=True, check=False)
    leftovers = [path for path in (places.exec_root, places.socket, places.pid_file) if path.exists()]
    if leftovers:
        subprocess.run(as_root(["rm", "-rf", "--one-file-system", *map(str, leftovers)]), check=False)
    return bool(left)


def _mounts_below(*folders: Path) -> list[str]:
    """Mount points below `folders`, the deepest first."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    points = [line.split()[4].replace("\\040", " ") for line in lines]
    return sorted((p for p in points if any(p.startswith(f"{f}/") for f in folders)), reverse=True)
