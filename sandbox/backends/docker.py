"""Sandboxes as containers of Docker, or of whatever speaks its API."""

from __future__ import annotations

import contextlib
import json
import socket
import stat
import struct
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

from sandbox.backends.reaper import FAILURES, LABEL, ownership, reap_in_background
from sandbox.bridge import ByteStream
from sandbox.engine import Engine
from sandbox.errors import ConnectionLost, EngineError, ImageNotFound, StartError
from sandbox.types import Limits

SUPERVISOR = "10001:10001"
AGENT = "10002:10001"
PYTHON = "/opt/venv/bin/python"
READ = 256 * 1024
LEASE = 60.0
"""Seconds without a host after which a sandbox ends by itself."""
REMOVAL_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0)
SEND_SECONDS = 60
"""How long the engine may take in nothing before a stream counts as broken."""


class DockerBackend:
    """One container. `inputs` are files and folders of the host by their name in `/workspace/data`.

    With `network` the supervisor listens on loopback for connections, and carries them to the host.
    """

    def __init__(
        self,
        engine: Engine,
        image: str,
        *,
        limits: Limits,
        inputs: Mapping[str, Path],
        runtime: str | None = None,
        label: str = "",
        lease: float = LEASE,
        network: bool = False,
    ) -> None:
        self._engine = engine
        self._image = image
        self._limits = limits
        self._inputs = {
            name: path for name, path in inputs.items() if engine.local and _readable_by_all(path)
        }
        self._runtime = runtime
        self._label = label
        self._lease = lease
        self._network = network
        self.name = f"codeact-{uuid.uuid4().hex[:12]}"
        self._asked = self._made = False
        try:
            self._client = engine.client()
        except FAILURES as error:
            raise EngineError(
                f"the container engine at {engine.url} does not answer: {_explained(error)}"
            ) from error
        self._api = self._client.api

    def start(self) -> None:
        settings = container_settings(self._limits, runtime=self._runtime)
        mounts = [
            docker.types.Mount(f"/workspace/data/{name}", str(path.resolve()), type="bind", read_only=True)
            for name, path in self._inputs.items()
        ]
        reap_in_background(self._engine)
        try:
            self._asked = True
            self._api.create_container(
                self._image,
                self._supervisor(),
                name=self.name,
                user=SUPERVISOR,
                working_dir="/workspace",
                environment=environment(),
                labels=self._labels(),
                healthcheck={"test": ["NONE"]},
                stop_signal="SIGKILL",
                use_config_proxy=False,
                host_config=self._api.create_host_config(**settings, mounts=mounts),
            )
            self._made = True
            self._api.start(self.name)
        except NotFound as error:
            self.stop()
            if "image" in str(error).lower():
                raise ImageNotFound(f"image {self._image} is not there: run `codeact image build`") from error
            raise StartError(f"the container did not start: {_explained(error)}") from error
        except FAILURES as error:
            if isinstance(error, APIError) and error.is_client_error() and not self._made:
                self._asked = False  # the engine was heard out, and made none
            self.stop()
            raise StartError(
                f"the container did not start: {_explained(error)}; change what it names, or see `codeact doctor`"
            ) from error

    def connect(self) -> ByteStream:
        # -P: the working folder is the agent's, and no file in it may pass for a module of ours
        argv = [PYTHON, "-P", "-S", "-m", "sandbox_guest.relay"]
        try:
            made = self._api.exec_create(self.name, argv, stdin=True, user=SUPERVISOR)
            return AttachedStream(self._api.exec_start(made["Id"], socket=True))
        except FAILURES as error:
            reason = _explained(error) + self._last_words()
            if not self.alive():
                raise ConnectionLost(f"the container ended: {reason}") from error
            raise OSError(reason) from error

    def run_as_agent(self, argv: Sequence[str], *, wait: bool = False) -> None:
        try:
            made = self._api.exec_create(
                self.name, [PYTHON, "-P", "-S", *argv], stdout=wait, stderr=False, user=AGENT
            )
            self._api.exec_start(made["Id"], detach=not wait)
        except FAILURES as error:
            raise EngineError(f"the engine did not start a process: {_explained(error)}") from error

    def alive(self) -> bool:
        try:
            return bool(self._api.inspect_container(self.name)["State"]["Running"])
        except FAILURES:
            return False

    def stop(self) -> None:
        for pause in REMOVAL_PAUSES if self._asked else ():
            time.sleep(pause)
            try:
                self._api.remove_container(self.name, force=True, v=True)
                break
            except NotFound:
                if self._made:
                    break  # else the engine was not heard out, and may make it yet
            except FAILURES:
                pass  # such as a removal that is under way: it is not over before the engine knows of none
        self._client.close()

    def mounted(self) -> frozenset[str]:
        return frozenset(self._inputs)

    def memory_used(self) -> int:
        try:
            used = self._api.stats(self.name, stream=False, one_shot=True)["memory_stats"]
        except FAILURES as error:
            raise EngineError(f"the engine does not tell the memory used: {_explained(error)}") from error
        stats = used.get("stats", {})  # without the page cache, which the kernel drops when it needs to
        return int(used.get("usage", 0)) - int(
            stats.get("total_inactive_file", stats.get("inactive_file", 0))
        )

    def _supervisor(self) -> list[str]:
        network = ["--network"] if self._network else []
        return [PYTHON, "-P", "-m", "sandbox_guest.supervisor", "--lease", str(self._lease), *network]

    def _labels(self) -> dict[str, str]:
        return {**ownership(), f"{LABEL}.run": self._label}

    def _last_words(self) -> str:
        """What the supervisor said on standard error, for a container that ended at once."""
        try:
            text = (
                self._api.logs(self.name, stdout=False, stderr=True, tail=5)
                .decode("utf-8", "replace")
                .strip()
            )
        except FAILURES:
            return ""
        return f" ({text[-500:]})" if text else ""


def container_settings(limits: Limits, *, runtime: str | None = None) -> dict[str, Any]:
    """The settings that contain the code; every one of them is tried by the contract suite."""
    memory = int(limits.memory)
    disk = f"size={limits.disk},nr_inodes={limits.files}"
    return {
        "network_mode": "none",
        "read_only": True,
        "init": True,
        "privileged": False,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true", "seccomp=" + seccomp_profile()],
        "pids_limit": int(limits.pids),
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(float(limits.cpus) * 10**9),
        "oom_score_adj": 500,
        "shm_size": "64m",
        "ipc_mode": "private",
        "ulimits": [
            docker.types.Ulimit(name="nofile", soft=1024, hard=1024),
            docker.types.Ulimit(name="fsize", soft=int(limits.disk), hard=int(limits.disk)),
            docker.types.Ulimit(name="core", soft=0, hard=0),
        ],
        "tmpfs": {
            # runc gives a tmpfs the mode that the folder has in the image; the two are kept the same
            "/tmp": "rw,nosuid,nodev,noexec,size=64m,mode=1777",  # noqa: S108
            "/run/k": "rw,nosuid,nodev,noexec,size=1m,mode=770,uid=10001,gid=10001",
            "/run/s": "rw,nosuid,nodev,noexec,size=1m,mode=700,uid=10001,gid=10001",
            # sticky, and the supervisor's: the agent may not move what the supervisor made
            "/workspace": f"rw,nosuid,nodev,exec,{disk},mode=3770,uid=10001,gid=10001",
            "/workspace/data": f"rw,nosuid,nodev,noexec,{disk},mode=755,uid=10001,gid=10001",
        },
        "log_config": docker.types.LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
        "runtime": runtime,
    }


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


def seccomp_profile() -> str:
    text = resources.files("sandbox.backends").joinpath("seccomp.json").read_text()
    return json.dumps(json.loads(text), separators=(",", ":"))


class AttachedStream:
    """The two directions of an exec. The engine sends `stream, 0, 0, 0, length` before each piece of output."""

    _HEADER = struct.Struct(">BxxxL")
    STDOUT = 1

    def __init__(self, attached: Any) -> None:
        self._attached = attached
        self._socket: Any = getattr(attached, "_sock", attached)
        self._socket.settimeout(None)
        with contextlib.suppress(AttributeError, OSError):  # not every transport has it
            wait = struct.pack("ll", SEND_SECONDS, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
        self._left = 0
        self._kept = True
        self._writing = threading.Lock()

    def read(self) -> bytes:
        while True:
            if self._left == 0:
                header = self._exactly(self._HEADER.size)
                if header is None:
                    return b""
                stream, self._left = self._HEADER.unpack(header)
                self._kept = stream == self.STDOUT
                continue
            data: bytes = self._socket.recv(min(self._left, READ))
            if not data:
                return b""
            self._left -= len(data)
            if self._kept:
                return data

    def write(self, data: bytes) -> None:
        with self._writing:
            self._socket.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._attached.close()
            self._socket.close()

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                return None
            data += more
        return data


def _readable_by_all(path: Path) -> bool:
    """Whether another user may read a file or a folder: what is not is sent through the bridge by us, who may."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        return mode & 0o005 == 0o005
    return bool(mode & 0o004)


def _explained(error: Exception) -> str:
    text = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return " ".join(str(text).split())[:500]
