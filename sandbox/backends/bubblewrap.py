"""Sandboxes without an engine: namespaces made by bubblewrap, limits by control groups where they can be made.

bubblewrap starts the launcher of `sandbox.guest`; that starts the supervisor, and what we ask it to over a socket. The
stream to the supervisor is a pair of pipes that is handed over the same way.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.backends import Ended, cgroups, seccomp, spawner
from sandbox.backends.common import (
    AGENT_ARGV,
    FOLDERS,
    LEASE,
    OPEN_FILES,
    RELAY_ARGV,
    SHARED_MEMORY,
    environment,
    mountable,
    supervisor_argv,
)
from sandbox.backends.machine import Machine, look
from sandbox.backends.users import AGENT, GROUP, SUPERVISOR
from sandbox.bridge import ByteStream
from sandbox.errors import ConnectionLost, EngineError, StartError
from sandbox.processes import descendants
from sandbox.roots import Root
from sandbox.types import Limits

READ = 256 * 1024
ANSWER_SECONDS = 20.0
STOP_SECONDS = 5.0
PLAN_ROOM = 32 * 1024
"""Bytes of the launcher's plan, of 64 KiB in all, that tell of inputs."""
SEND_SECONDS = 60
"""How long the supervisor may take in nothing before a stream counts as broken."""
CAPABILITIES = ("SYS_ADMIN", "SETUID", "SETGID", "SETPCAP", "DAC_OVERRIDE", "SETFCAP")
"""What the launcher begins with, in its own user namespace; it gives up what it needs only for mounts. The kernel asks for
the last of them where a user namespace is made in which its user has another number."""
HIDDEN = ("kcore", "keys", "latency_stats", "sched_debug", "timer_list", "timer_stats")
"""Files of /proc about the machine."""


class BubblewrapBackend:
    """One sandbox. `inputs` are files and folders of the host by their name in `/workspace/data`."""

    def __init__(
        self,
        root: Root,
        *,
        limits: Limits,
        inputs: Mapping[str, Path],
        label: str = "",
        network: bool = False,
        lease: float = LEASE,
    ) -> None:
        self._root = root
        self._limits = limits
        self._inputs = _as_many_as_fit(mountable(inputs))
        self._label = label
        self._network = network
        self._lease = lease
        self._machine = look()
        self._process: subprocess.Popen[bytes] | None = None
        self._first: int | None = None
        """A descriptor of the sandbox's first process: when that ends, all do."""
        self._group: cgroups.Group | None = None
        self._control: socket.socket | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the sandbox
        self._asking = threading.Lock()
        self._asked = 0
        self._answers: dict[int, dict[str, Any]] = {}

    @property
    def unenforced(self) -> Mapping[str, str]:
        return self._machine.unenforced

    def start(self) -> None:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        machine = self._machine
        if machine.program is None:
            raise StartError(
                "bubblewrap is not installed: run `sudo apt-get install bubblewrap`, or start an engine"
            )
        spawner.clear_away(cgroups.remove_left)
        plan = json.dumps(self._plan(machine)).encode()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        with theirs:
            try:
                if machine.parents is not None:
                    self._group = cgroups.make_group(machine.parents, self._limits)
                self._launch(machine, theirs)
            except OSError as error:
                raise StartError(f"the sandbox did not start: {error}{self._last_words()}") from error
        try:
            ours.settimeout(ANSWER_SECONDS)
            ours.sendall(plan)
            answer = json.loads(ours.recv(64 * 1024) or b'{"error": "it ended at once"}')
        except (OSError, ValueError) as error:
            raise StartError(f"the sandbox did not start: {error}{self._last_words()}") from error
        if "error" in answer:
            raise StartError(f"the sandbox did not start: {answer['error']}{self._last_words()}")

    def _launch(self, machine: Machine, control: socket.socket) -> None:
        """Starts bubblewrap, which waits until its users are mapped: by then it is in its control group."""
        info_read, info_write = os.pipe()
        block_read, block_write = os.pipe()
        # over a descriptor: a command line can be read inside, and these name folders of the host
        options = _memory_file("\0".join(self._options(info_write, block_read)).encode())
        try:
            command = [
                machine.program or "",
                "--args",
                str(options),
                "--",
                *AGENT_ARGV,
                "-m",
                "sandbox_guest.launcher",
                self._label,
            ]
            self._process = spawner.spawn(
                command,
                stdin=control.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._errors.fileno(),
                pass_fds=(info_write, block_read, options),
                env={},
                cwd="/",
            )
            os.close(info_write)
            info_write = -1
            with os.fdopen(os.dup(info_read)) as info:
                said = info.read()
            if not said:
                raise OSError("bubblewrap ended at once")
            child = int(json.loads(said)["child-pid"])
            self._first = os.pidfd_open(child)
            if self._group is not None:
                self._group.add(child)
            machine.users.write(child)
            os.write(block_write, b"!")
        finally:
            for descriptor in (info_read, info_write, block_read, block_write, options):
                if descriptor >= 0:
                    os.close(descriptor)

    def _options(self, info: int, block: int) -> list[str]:
        options = [
            *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--uid", "0", "--gid", "0", "--hostname", "sandbox"),
            *("--userns-block-fd", str(block), "--info-fd", str(info)),
            *("--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"),
        ]
        for capability in CAPABILITIES:
            options += ["--cap-add", f"CAP_{capability}"]
        for name, value in self._environment().items():
            options += ["--setenv", name, value]
        options += [
            "--ro-bind",
            str(self._root.folder),
            "/",
            "--ro-bind",
            str(self._root.guest),
            "/opt/sandbox",
        ]
        options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run", "--tmpfs", "/sys"]
        for name in HIDDEN:
            if Path("/proc", name).exists():
                options += ["--ro-bind", "/dev/null", f"/proc/{name}"]
        options += ["--perms", "0755", "--dir", "/sys/fs", "--perms", "0755", "--dir", "/sys/fs/cgroup"]
        for folder, place in self._group.mounts if self._group else ():
            options += ["--ro-bind", str(folder), place]
        options += ["--tmpfs", "/run/inputs", "--dir", "/run/k", "--dir", "/run/s"]
        for number, path in enumerate(self._inputs.values()):
            options += ["--ro-bind", str(path.resolve()), f"/run/inputs/{number}"]
        return [
            *options,
            "--remount-ro",
            "/run",
            "--remount-ro",
            "/sys",
            "--remount-ro",
            "/dev",
            "--chdir",
            "/",
        ]

    def _environment(self) -> dict[str, str]:
        return {**self._root.environment, **environment()}

    def _plan(self, machine: Machine) -> dict[str, Any]:
        shared = machine.users.shared
        limits = {"NOFILE": OPEN_FILES, "CORE": 0, "FSIZE": int(self._limits.disk)}
        if machine.parents is None:
            limits["DATA"] = int(self._limits.memory)
        if machine.counts_processes:
            limits["NPROC"] = int(self._limits.pids)
        return {
            "folders": [
                [folder.place, folder.options(self._limits, owners=not shared), folder.executable]
                for folder in (*FOLDERS, SHARED_MEMORY)
            ],
            "inputs": [[name, path.is_dir()] for name, path in self._inputs.items()],
            "users": {"supervisor": [SUPERVISOR, GROUP], "agent": [AGENT, GROUP]},
            "shared_user": shared,
            "limits": limits,
            "filter": seccomp.program().hex(),
            "environment": self._environment(),
            "supervisor": supervisor_argv(self._lease, network=self._network),
        }

    def connect(self) -> ByteStream:
        if not self.alive():
            raise ConnectionLost(f"the sandbox ended{self._last_words()}")
        from_host, to_sandbox = os.pipe()
        from_sandbox, to_host = os.pipe()
        try:
            self._order({"user": "supervisor", "argv": list(RELAY_ARGV)}, (from_host, to_host))
        except OSError as error:
            os.close(to_sandbox)
            os.close(from_sandbox)
            raise OSError(f"{error.strerror or error}{self._last_words()}") from error
        finally:
            os.close(from_host)
            os.close(to_host)
        return PipeStream(from_sandbox, to_sandbox)

    def run_as_agent(self, argv: Sequence[str], *, within: float) -> Ended:
        try:
            started = self._order({"user": "agent", "argv": [*AGENT_ARGV, *argv]})
        except OSError as error:
            raise EngineError(f"the sandbox did not start a process: {error}{self._last_words()}") from error
        return lambda: self._has_ended(started["id"])

    def _has_ended(self, process: int) -> bool:
        try:
            return not self._order({"running": process})["running"]
        except OSError:  # the sandbox is gone, which others notice
            return False

    def _order(self, order: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Has the launcher start a process, or say whether one that it started runs; its answer. Raises OSError."""
        with self._asking:
            control = self._control
            if control is None:
                raise OSError("the sandbox is closed")
            self._asked += 1
            order["id"] = self._asked
            socket.send_fds(control, [json.dumps(order).encode()], list(descriptors))
            while True:
                said = control.recv(64 * 1024)
                if not said:
                    raise OSError("the sandbox ended")
                answer: dict[str, Any] = json.loads(said)
                if answer.get("id") == order["id"]:
                    break
        if "error" in answer:
            raise OSError(answer["error"])
        return answer

    def alive(self) -> bool:
        return self._first is not None and not _ended(self._first, 0)

    def stop(self) -> None:
        process, first = self._process, self._first
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
        if first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(first, signal.SIGKILL)
            _ended(first, STOP_SECONDS)
        if process is not None:
            with contextlib.suppress(
                subprocess.TimeoutExpired
            ):  # it ends when what it started has, and reaps that
                process.wait(STOP_SECONDS if first is not None else 0)
            process.kill()
            process.wait()
        if self._group is not None:
            self._group.remove()
            self._group = None
        self._process = None
        if self._control is not None:
            self._control.close()
        if first is not None:
            self._first = None
            os.close(first)
        self._errors.close()

    def relabel(self, label: str) -> None:
        """Nothing: the label is an argument of a process that runs."""

    def mounted(self) -> frozenset[str]:
        return frozenset(self._inputs)

    def memory_used(self) -> int:
        try:
            if self._group is not None:
                return self._group.memory_used()
        except (OSError, ValueError) as error:
            raise EngineError(f"the memory used cannot be told: {error}") from error
        return sum(map(_resident, descendants({self._process.pid}))) if self._process else 0

    def _last_words(self) -> str:
        """What bubblewrap, the launcher or the supervisor said on standard error."""
        if self._errors.closed:
            return ""
        size = os.fstat(self._errors.fileno()).st_size
        text = os.pread(self._errors.fileno(), 500, max(0, size - 500)).decode("utf-8", "replace").strip()
        return f" ({' '.join(text.split())})" if text else ""


class PipeStream:
    """Two pipes. Reads and writes wait for either the other end or `close`, from whichever thread that comes."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self._closing = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closed = False
        self._reading, self._writing = threading.Lock(), threading.Lock()

    def read(self) -> bytes:
        with self._reading:
            while self._wait(self._reader, select.POLLIN):
                with contextlib.suppress(BlockingIOError):
                    return os.read(self._reader, READ)
        return b""

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        with self._writing:
            while left:
                if not self._wait(self._writer, select.POLLOUT):
                    raise OSError("the stream is closed")
                with contextlib.suppress(BlockingIOError):
                    left = left[os.write(self._writer, left) :]

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        os.eventfd_write(self._closing, 1)
        with self._reading, self._writing:
            for descriptor in (self._reader, self._writer, self._closing):
                os.close(descriptor)

    def _wait(self, descriptor: int, event: int) -> bool:
        """Waits until something can be done with a descriptor; False once the stream is closed."""
        if self._closed:
            return False
        poll = select.poll()
        poll.register(descriptor, event)
        poll.register(self._closing, select.POLLIN)
        found = poll.poll(SEND_SECONDS * 1000 if event == select.POLLOUT else None)
        if not found:
            raise OSError("the sandbox takes nothing in any more")
        return all(ready != self._closing for ready, _ in found)


def _as_many_as_fit(inputs: Mapping[str, Path]) -> dict[str, Path]:
    """The first inputs, as many as the launcher's plan, which is one message, has room for; the others are sent as files are."""
    fitting: dict[str, Path] = {}
    room = PLAN_ROOM
    for name, path in inputs.items():
        room -= len(json.dumps([name, False])) + 2
        if room < 0:
            break
        fitting[name] = path
    return fitting


def _memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("options")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _ended(pidfd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
