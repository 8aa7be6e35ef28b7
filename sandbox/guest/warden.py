"""Starts the kernel as the agent's user, passes signals to it, and says how it ended.

The supervisor is another user and may not signal the kernel; this process may. It is started afresh for each kernel:
it ends all that the agent's user left behind, connects to the supervisor's socket, gets one JSON line that says what to
start, then one-letter commands.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from .relay import PATIENCE, meet

SOCKET = "/run/k/warden.sock"
KEPT = ("warden.sock", "host.sock")
KERNEL_OOM_SCORE = "800"


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else SOCKET
    kill_all()
    clean(os.path.dirname(path))
    link, order = take_order(path)
    # SIGCHLD must wake the select below, however early the kernel ends
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    kernel = start(order["argv"], order["cwd"], order["env"])
    link.sendall(json.dumps({"pid": kernel}).encode() + b"\n")
    watch(link, wake_read, kernel)


def take_order(path: str) -> tuple[socket.socket, dict[str, Any]]:
    """The link to the supervisor, and what to start. Turned away, it asks again: word of its coming may be on its way.

    Raises OSError when nobody wants it.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        link = meet(path)
        with contextlib.suppress(ConnectionResetError), link.makefile("rb", buffering=0) as reader:
            if line := reader.readline():
                return link, json.loads(line)
        link.close()
        time.sleep(0.01)
    raise TimeoutError("the supervisor wants no kernel")


def watch(link: socket.socket, wake: int, kernel: int) -> None:
    """Serves the supervisor until the kernel is gone, and all else of the agent's user with it, or another warden comes."""
    while True:
        readable, _, _ = select.select([link.fileno(), wake], [], [])
        if wake in readable:
            os.read(wake, 512)
            done, status = os.waitpid(kernel, os.WNOHANG)
            if done:
                kill_all()
                link.sendall(json.dumps({"exit": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
                return
        if link.fileno() in readable:
            commands = link.recv(64)
            if (
                not commands
            ):  # another warden comes, and ends what is left; ending it here would end that one, too
                return
            for letter in commands.decode():
                if letter == "I":
                    os.kill(kernel, signal.SIGINT)
                elif letter == "K":
                    kill_all()
                link.sendall(b'{"signalled": true}\n')


def kill_all() -> None:
    """Ends every process of this user but this one."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def clean(folder: str) -> None:
    """Removes what earlier kernels, and code in them, left in `folder`; what is the supervisor's stays."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            if place == folder and name in KEPT:  # where both are one user, nothing else keeps them
                continue
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(place, name))
        for name in folders:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(place, name))


def start(argv: list[str], cwd: str, env: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.umask(0o002)
        os.setsid()
        os.chdir(cwd)
        with contextlib.suppress(
            OSError
        ):  # no room, or something of that name: the kernel must come up all the same
            os.makedirs("out", exist_ok=True)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write(KERNEL_OOM_SCORE)
        for each in signal.valid_signals():  # whoever started us in the background had some ignored
            with contextlib.suppress(OSError):
                signal.signal(each, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.execve(argv[0], argv, {**os.environ, **env, "JPY_PARENT_PID": str(os.getppid())})
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
