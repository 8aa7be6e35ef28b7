"""The supervisor's side of one kernel: its process (through the warden) and its ZMQ channels.

All that the kernel sends is hostile: its signing key can be read by the code that runs in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
from typing import Any

import zmq
from jupyter_client.session import Session

CHANNELS = ("shell", "iopub", "control", "stdin", "hb")
MAX_MESSAGE = 256 * 1024 * 1024
REMEMBERED = 1000
"""Messages whose repetition would be noticed."""
DELIMITER = b"<IDS|MSG>"
MAX_REQUEST = 200
LAUNCHER = [sys.executable, "-P", "-m", f"{__package__}.kernel"]


class KernelLink:
    """One kernel, from its warden's arrival to its end.

    Raises OSError when what it needs cannot be made in `folder`, which the agent's user may write too: no name in there
    can be guessed before the warden has ended all that the agent left running.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        folder: str,
        cwd: str,
        warden: socket.socket,
        variables: dict[str, str],
    ) -> None:
        self.warden = warden
        self.ended: dict[str, Any] | None = None
        self.pid: int | None = None
        self.signals_under_way = 0
        self.junk = 0
        self.broken = False
        """Whether it was ended because it answered and ran no cells any more."""
        self._signatures: dict[bytes, None] = {}
        self._lines = b""
        self._ipc = os.path.join(folder, secrets.token_hex(8))
        key = secrets.token_hex(16)
        self._session = Session(key=key.encode(), username="supervisor")
        self.shell = self._connect(context, zmq.DEALER, 1)
        self.iopub = self._connect(context, zmq.SUB, 2)
        self.stdin = self._connect(context, zmq.DEALER, 4)
        self.iopub.setsockopt(zmq.SUBSCRIBE, b"")
        self._start(key, cwd, variables)

    def _connect(self, context: zmq.Context[Any], kind: int, port: int) -> zmq.Socket[Any]:
        link: zmq.Socket[Any] = context.socket(kind)
        link.linger = 0
        link.setsockopt(zmq.IDENTITY, self._session.bsession)
        link.setsockopt(zmq.RECONNECT_IVL, 10)
        link.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        link.setsockopt(zmq.RCVHWM, 200)
        link.connect(f"ipc://{self._ipc}-{port}")
        return link

    def _start(self, key: str, cwd: str, variables: dict[str, str]) -> None:
        connection = {
            "transport": "ipc",
            "ip": self._ipc,
            "key": key,
            "signature_scheme": "hmac-sha256",
            **{f"{name}_port": number for number, name in enumerate(CHANNELS, 1)},
        }
        path = f"{self._ipc}.json"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640), "w") as file:
            json.dump(connection, file)
        # a profile of its own: /tmp may be full, or hold whatever the code of an earlier kernel left there
        env = {**variables, "PYTHONPATH": _guest_root(), "IPYTHONDIR": f"{self._ipc}.ipython"}
        order = {"argv": [*LAUNCHER, path], "cwd": cwd, "env": env}
        self.warden.sendall(json.dumps(order).encode() + b"\n")

    def began(self, request: str) -> bool:
        """Whether the kernel had taken this request up; it says so itself, and may lie."""
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{self._ipc}.begun", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with open(descriptor, "rb") as file:
                return file.read(MAX_REQUEST) == request.encode()
        return False

    @property
    def sockets(self) -> tuple[zmq.Socket[Any], ...]:
        return self.shell, self.iopub, self.stdin

    def hear_warden(self) -> None:
        """Takes what the warden says; `ended` is set when the kernel is gone, whoever ended it."""
        try:
            data = self.warden.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data and self.ended is None:
            self.ended = {"exit": None}
        *lines, self._lines = (self._lines + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                said = json.loads(line)
                if isinstance(said, dict):
                    self._take(said)
        self._lines = self._lines[:4096]

    def _take(self, said: dict[str, Any]) -> None:
        if "pid" in said:
            self.pid = said["pid"]
        if "signalled" in said:
            self.signals_under_way = max(0, self.signals_under_way - 1)
        if "exit" in said:
            self.ended = {"exit": said["exit"] if type(said["exit"]) is int else None}

    def signal(self, letter: str) -> None:
        with contextlib.suppress(OSError):
            self.warden.sendall(letter.encode())
            self.signals_under_way += 1

    def ask_info(self) -> str:
        return self._send("kernel_info_request", {})

    def execute(self, code: str) -> str:
        """Sends a cell; the id that its outputs and its reply will carry."""
        return self._send(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        )

    def _send(self, kind: str, content: dict[str, Any]) -> str:
        message = self._session.msg(kind, content)
        self._session.send(self.shell, message)
        return str(message["header"]["msg_id"])

    def receive(self, link: zmq.Socket[Any]) -> tuple[str, str, dict[str, Any]] | None:
        """The next message of a channel as (kind, id of the request it belongs to, content); None when it is junk.

        Signatures are not checked: the code that could forge a message can read the key. They tell a message that was
        sent again. Raises zmq.Again when there is none.
        """
        parts = link.recv_multipart(zmq.NOBLOCK)
        try:
            start = parts.index(DELIMITER) + 2
            header, parent, _, content = map(json.loads, parts[start : start + 4])
            kind, request = header["msg_type"], parent.get("msg_id", "")
            if (
                self._is_new(parts[start - 1])
                and isinstance(kind, str)
                and isinstance(request, str)
                and isinstance(content, dict)
            ):
                return kind, request, content
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            pass
        self.junk += 1
        return None

    def _is_new(self, signature: bytes) -> bool:
        if signature in self._signatures:
            return False
        if len(self._signatures) >= REMEMBERED:
            del self._signatures[next(iter(self._signatures))]
        self._signatures[signature] = None
        return True

    def close(self) -> None:
        for link in self.sockets:
            link.close()
        self.warden.close()


def _guest_root() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
