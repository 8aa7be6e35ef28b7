"""Starts the kernel as the agent's user, passes signals to it, and says how it ended.

The supervisor is another user and may not signal the kernel; this process may. It is started afresh for each kernel,
connects to the supervisor's socket, gets one JSON line that says what to start, then one-letter commands.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys

from .relay import meet

SOCKET = "/run/k/warden.sock"
KERNEL_OOM_SCORE = "800"
SIGNALS = {b"I": signal.SIGINT, b"K": signal.SIGKILL}


def main() -> None:
    link = meet(sys.argv[1] if len(sys.argv) > 1 else SOCKET)
    with link.makefile("rb", buffering=0) as reader:
        order = json.loads(reader.readline())
    # SIGCHLD must wake the select below, however early the kernel ends
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    kernel = start(order["argv"], order["cwd"], order["env"])
    link.sendall(json.dumps({"pid": kernel}).encode() + b"\n")
    while True:
        readable, _, _ = select.select([link, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 512)
            done, status = os.waitpid(kernel, os.WNOHANG)
            if done:
                ended = {"exit": os.waitstatus_to_exitcode(status)}
                link.sendall(json.dumps(ended).encode() + b"\n")
                return
        if link in readable:
            commands = link.recv(64)
            if not commands:  # the supervisor is gone: so is the reason to live
                os.kill(kernel, signal.SIGKILL)
                return
            for letter in commands:
                number = SIGNALS.get(bytes([letter]))
                if number is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(kernel, number)
                    link.sendall(b'{"signalled": true}\n')


def start(argv: list[str], cwd: str, env: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.umask(0o002)
        os.setsid()
        os.chdir(cwd)
        os.makedirs("out", exist_ok=True)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write(KERNEL_OOM_SCORE)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.execve(argv[0], argv, {**os.environ, **env, "JPY_PARENT_PID": str(os.getppid())})
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
