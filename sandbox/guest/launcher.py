"""Where no engine does it: mounts the folders, then starts processes as the host asks, each under its user and limits.

The first process in a bubblewrap sandbox. It is root of a user namespace, with the few capabilities that it needs, and
only it has them: what it starts has none and can gain none. The host's orders come over its standard input, one JSON
object a message, with the descriptors that the new process is to have. When that ends, or the supervisor does, it ends,
and the sandbox with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

CONTROL = 0
MAX_ORDER = 64 * 1024
CAP_SETGID, CAP_SETUID, CAP_SETPCAP = 6, 7, 8
LAST_CAP = "/proc/sys/kernel/cap_last_cap"
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 1 << 5, 1 << 12
MS_MOVE, MS_REC, MS_PRIVATE = 1 << 13, 1 << 14, 1 << 18
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 1, 24, 38, 22
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION = 0x20080522
OOM_SCORE = "500"
SETTINGS = ("/proc/sys", "/proc/sysrq-trigger")
"""Places of /proc that change the machine; that they belong to another user is not left to be their only protection."""
INPUTS, DATA = "/run/inputs", "/workspace/data"
FAILED = 127

libc = ctypes.CDLL(None, use_errno=True)


class Launcher:
    """`plan` is the host's first order: `folders`, `inputs`, `users`, `limits`, `filter`, `environment`, `supervisor`."""

    def __init__(self, control: socket.socket, plan: dict[str, Any]) -> None:
        self._control, self._plan = control, plan
        self._filter = bytes.fromhex(plan["filter"])
        self._users: dict[str, list[int]] = plan["users"]
        self._shared_user: bool = plan["shared_user"]
        self._running: dict[int, int] = {}
        """Processes, by their number here → that of the order to start them."""
        self._agents: int | None = None
        """The first process of the agent's process namespace, where both share a user."""
        self._supervisor = 0

    def run(self) -> None:
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._supervisor = self._start("supervisor", self._plan["supervisor"], [])
        while True:
            readable, _, _ = select.select([CONTROL, wake_read], [], [])
            if wake_read in readable:
                os.read(wake_read, 512)
                if not self._reap():
                    return
            if CONTROL in readable:
                message, descriptors, _, _ = socket.recv_fds(self._control, MAX_ORDER, 2)
                if not message:
                    return
                self._obey(json.loads(message), descriptors)

    def _obey(self, order: dict[str, Any], descriptors: list[int]) -> None:
        if "running" in order:
            self._answer(order["id"], {"running": order["running"] in self._running.values()})
            return
        try:
            pid = self._start(order["user"], order["argv"], descriptors)
        except OSError as error:
            self._answer(order["id"], {"error": str(error)})
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._running[pid] = order["id"]
        self._answer(order["id"], {})

    def _reap(self) -> bool:
        """Takes note of what has ended; whether the supervisor goes on."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid == self._supervisor:
                    return False
                if pid == self._agents:
                    self._agents = None
                self._running.pop(pid, None)
        return True

    def _answer(self, number: int, fields: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps({"id": number, **fields}).encode())

    # -- processes -----------------------------------------------------------------------------------------------

    def _start(self, user: str, argv: list[str], descriptors: list[int]) -> int:
        apart = self._shared_user and user == "agent"
        if apart:
            self._end_agents()
        pid = os.fork()
        if pid:
            if apart:
                self._agents = pid
            return pid
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if apart:
                enter_own_processes()
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1):
                os.dup2(descriptors[number] if descriptors else null, number)
            if user == "agent":
                os.dup2(null, 2)
            os.closerange(3, 1024)
            self._become(user)
            os.execve(argv[0], argv, self._plan["environment"])
        except BaseException as error:  # noqa: BLE001 - in a fork: nothing of the parent's may go on
            print(f"{argv[:1]}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(FAILED)

    def _end_agents(self) -> None:
        if self._agents is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._agents, signal.SIGKILL)
            os.waitpid(self._agents, 0)
            self._running.pop(self._agents, None)
            self._agents = None

    def _become(self, user: str) -> None:
        """Gives up all rights, for ever."""
        uid, gid = self._users[user]
        os.setsid()
        os.umask(0o022)
        for name, value in self._plan["limits"].items():
            number = getattr(resource, f"RLIMIT_{name}")
            resource.setrlimit(number, (value, value))
        if self._shared_user:
            map_to_one(
                uid, gid
            )  # which gives a full set of rights over the new namespace, all given up below
        for capability in range(last_capability() + 1):
            check(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
        if not self._shared_user:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        keep_capabilities(())
        os.chdir("/workspace")
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        install_filter(self._filter)


def enter_own_processes() -> None:
    """Makes a process namespace, of which this process's child is the first: it goes on there, this one waits."""
    check(libc.unshare(CLONE_NEWPID | CLONE_NEWNS))
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    check(libc.mount(b"tmpfs", b"/run/s", b"tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, b"mode=0"))
    for _ in range(2):  # the first there reaps what is left of others
        child = os.fork()
        if child:
            reap_until(child)
        check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        if os.getpid() == 1:
            check(libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None))
            make_settings_read_only()


def make_settings_read_only() -> None:
    for place in filter(os.path.exists, SETTINGS):
        target = place.encode()
        check(libc.mount(target, target, None, MS_BIND, None), place)
        flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY
        check(libc.mount(None, target, None, MS_BIND | MS_REMOUNT | flags, None), place)


def reap_until(child: int) -> NoReturn:
    """Waits for a child, whatever else comes; ends as it did."""
    os.closerange(3, 1024)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def map_to_one(uid: int, gid: int) -> None:
    """A user namespace in which the one user there is has another number, and no rights over what is outside of it."""
    outer = os.getuid(), os.getgid()
    check(libc.unshare(CLONE_NEWUSER))
    for name, text in (
        ("setgroups", "deny"),
        ("gid_map", f"{gid} {outer[1]} 1"),
        ("uid_map", f"{uid} {outer[0]} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def set_up(plan: dict[str, Any]) -> None:
    """Mounts what is held in memory, and moves the inputs to their place. Raises OSError."""
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write(OOM_SCORE)
    make_settings_read_only()
    for place, options, executable in plan["folders"]:
        with contextlib.suppress(FileExistsError):
            os.mkdir(place)
        numbers = MS_NOSUID | MS_NODEV | (0 if executable else MS_NOEXEC)
        check(libc.mount(b"tmpfs", place.encode(), b"tmpfs", numbers, options.encode()), place)
    for number, (name, is_folder) in enumerate(plan["inputs"]):
        target = os.path.join(DATA, name)
        if is_folder:
            os.mkdir(target)
        else:
            open(target, "w").close()
        check(libc.mount(f"{INPUTS}/{number}".encode(), os.fsencode(target), None, MS_MOVE, None), name)
    check(libc.umount2(INPUTS.encode(), MNT_DETACH), INPUTS)
    if not plan["shared_user"]:
        keep_capabilities((CAP_SETUID, CAP_SETGID, CAP_SETPCAP))


def last_capability() -> int:
    with open(LAST_CAP) as file:
        return int(file.read())


def keep_capabilities(kept: tuple[int, ...]) -> None:
    mask = sum(1 << number for number in kept)
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    check(libc.capset(header, struct.pack("6I", mask, mask, 0, 0, 0, 0)))


def install_filter(program: bytes) -> None:
    """Loads BPF instructions of 8 bytes each as this process's filter of system calls."""
    code = ctypes.create_string_buffer(program, len(program))
    filter_program = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program, 0, 0))


def check(result: int, what: str = "") -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what or None)


def main() -> None:
    control = socket.socket(fileno=os.dup(CONTROL))
    plan = json.loads(control.recv(MAX_ORDER))
    try:
        set_up(plan)
        launcher = Launcher(control, plan)
    except OSError as error:
        control.sendall(json.dumps({"id": 0, "error": str(error)}).encode())
        return
    control.sendall(b'{"id": 0}')
    launcher.run()


if __name__ == "__main__":
    main()
