"""A container engine on another machine, reached by the `ssh` of this one: its socket appears here as one of ours.

The client library has a way of its own, which needs another SSH implementation and cannot carry streams both ways through
the system's. A forwarded socket works with everything, and with the user's own configuration, keys and agent.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from sandbox.errors import EngineNotFound
from sandbox.held import SCRATCH, new_folder
from sandbox.probe import ping

CONNECT_SECONDS = 15.0
POLL_SECONDS = 0.02
REMOTE_SOCKET = "/var/run/docker.sock"
OPTIONS = (
    "BatchMode=yes",
    "ExitOnForwardFailure=yes",
    f"ConnectTimeout={CONNECT_SECONDS:.0f}",
    "ServerAliveInterval=15",
    "ControlPath=none",  # a shared connection would end with whoever opened it
)


@dataclass
class Tunnel:
    """A running `ssh`, and the socket here that leads to the engine there."""

    socket: Path
    process: subprocess.Popen[bytes] = field(repr=False)
    held: int
    """A descriptor that says that the socket's folder is somebody's."""

    @property
    def open(self) -> bool:
        return self.process.poll() is None and self.socket.exists()

    def close(self) -> None:
        self.end()
        shutil.rmtree(self.socket.parent, ignore_errors=True)
        os.close(self.held)

    def end(self) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stderr):
            if stream is not None:
                stream.close()
        self.socket.unlink(missing_ok=True)


_tunnels: dict[tuple[int, str], Tunnel] = {}
_lock = threading.Lock()


def tunnel(url: str) -> Path:
    """The local socket for an engine at `ssh://[user@]host[:port][/path/of/socket]`; one tunnel a process and URL.

    Raises EngineNotFound.
    """
    with _lock:
        key = (os.getpid(), url)
        found = _tunnels.get(key)
        if found is None or not found.open:
            if not _tunnels:
                atexit.register(close_tunnels)
            if found is None:
                folder, held = new_folder(Path(tempfile.gettempdir()), SCRATCH)
                try:
                    found = _open(url, folder / "docker.sock", held)
                except BaseException:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(held)
                    raise
            else:  # the same place, since clients have its name; where it fails, it is tried again when it is asked for again
                found.end()
                found = _open(url, found.socket, found.held)
            _tunnels[key] = found
        return found.socket


def close_tunnels() -> None:
    """Ends all that this process opened."""
    with _lock:
        for key in [key for key in _tunnels if key[0] == os.getpid()]:
            _tunnels.pop(key).close()


def _open(url: str, place: Path, held: int) -> Tunnel:
    process = subprocess.Popen(
        _command(url, place),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    made = Tunnel(place, process, held)
    deadline = time.monotonic() + CONNECT_SECONDS
    while (silence := ping(place)) is not None:
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            said = process.stderr.read().decode("utf-8", "replace") if ended and process.stderr else ""
            made.end()
            reason = " ".join(said.split())[-300:] or silence.reason
            raise EngineNotFound(
                f"{url} is not reached: {reason}; try `ssh {_host(urlsplit(url))} docker info`"
            )
        time.sleep(POLL_SECONDS)
    return made


def _command(url: str, place: Path) -> list[str]:
    program = shutil.which("ssh")
    if program is None:
        raise EngineNotFound(f"{url}: there is no `ssh` on the PATH; install OpenSSH's client")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise EngineNotFound(f"{url}: {error}; write it as ssh://user@host:port") from None
    # `cat` ends when this process does, however that happens, and the tunnel with it
    return [program, *_options(parts), "-L", f"{place}:{parts.path or REMOTE_SOCKET}", "--", _host(parts), "cat"]  # fmt: skip


def _options(parts: SplitResult) -> list[str]:
    options = [word for option in OPTIONS for word in ("-o", option)]
    return [*options, *(["-p", str(parts.port)] if parts.port else [])]


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if not host or host.startswith("-") or (parts.username or "").startswith("-"):
        raise EngineNotFound(f"{parts.geturl()}: is not ssh://user@host; write it so")
    return f"{parts.username}@{host}" if parts.username else host
