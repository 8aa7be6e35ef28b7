"""Sandboxes as containers of Docker, or of whatever speaks its API."""

from __future__ import annotations

import contextlib
import json
import os
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
from docker.errors import APIError, DockerException, NotFound

from sandbox.bridge import ByteStream
from sandbox.engine import Engine
from sandbox.errors import EngineError, ImageNotFound, StartError
from sandbox.types import Limits

SUPERVISOR = "10001:10001"
AGENT = "10002:10001"
LABEL = "codeact"
EXPIRY_SECONDS = 24 * 3600
PYTHON = "/opt/venv/bin/python"
READ = 256 * 1024


class DockerBackend:
    """One container. `inputs` are files and folders of the host by their name in `/workspace/data`."""

    def __init__(
        self,
        engine: Engine,
        image: str,
        *,
        limits: Limits,
        inputs: Mapping[str, Path],
        runtime: str | None = None,
        label: str = "",
    ) -> None:
        self._engine = engine
        self._image = image
        self._limits = limits
        self._inputs = {name: path for name, path in inputs.items() if engine.local and _readable_by_all(path)}
        self._runtime = runtime
        self._label = label
        self._id: str | None = None
        self._client = engine.client()
        self._api = self._client.api

    def start(self) -> None:
        settings = container_settings(self._limits, runtime=self._runtime)
        mounts = [
            docker.types.Mount(f"/workspace/data/{name}", str(path.resolve()), type="bind", read_only=True)
            for name, path in self._inputs.items()
        ]
        try:
            created = self._api.create_container(
                self._image,
                [PYTHON, "-P", "-m", "sandbox_guest.supervisor"],
                name=f"codeact-{uuid.uuid4().hex[:12]}",
                user=SUPERVISOR,
                working_dir="/workspace",
                environment=environment(),
                labels=self._labels(),
                healthcheck={"test": ["NONE"]},
                stop_signal="SIGKILL",
                use_config_proxy=False,
                host_config=self._api.create_host_config(**settings, mounts=mounts),
            )
            self._id = created["Id"]
            self._api.start(self._id)
        except NotFound as error:
            self.stop()
            if "image" in str(error).lower():
                raise ImageNotFound(f"image {self._image} is not there: run `codeact image build`") from error
            raise StartError(f"the container did not start: {_explained(error)}") from error
        except DockerException as error:
            self.stop()
            raise StartError(f"the container did not start: {_explained(error)}") from error

    def connect(self) -> ByteStream:
        try:
            made = self._api.exec_create(
                self._id, [PYTHON, "-S", "-m", "sandbox_guest.relay"], stdin=True, user=SUPERVISOR
            )
            return AttachedStream(self._api.exec_start(made["Id"], socket=True))
        except DockerException as error:
            raise OSError(_explained(error) + self._last_words()) from error

    def run_as_agent(self, argv: Sequence[str]) -> None:
        try:
            made = self._api.exec_create(self._id, [PYTHON, "-S", *argv], stdout=False, stderr=False, user=AGENT)
            self._api.exec_start(made["Id"], detach=True)
        except DockerException as error:
            raise EngineError(f"the engine did not start a process: {_explained(error)}") from error

    def alive(self) -> bool:
        try:
            return bool(self._api.inspect_container(self._id)["State"]["Running"])
        except DockerException:
            return False

    def stop(self) -> None:
        if self._id is not None:
            with contextlib.suppress(DockerException):
                self._api.remove_container(self._id, force=True, v=True)
            self._id = None
        self._client.close()

    def mounted(self) -> frozenset[str]:
        return frozenset(self._inputs)

    def memory_used(self) -> int:
        """Bytes of memory that the container uses now, without page cache that can be dropped."""
        used = self._api.stats(self._id, stream=False, one_shot=True)["memory_stats"]
        stats = used.get("stats", {})
        return int(used["usage"]) - int(stats.get("total_inactive_file", stats.get("inactive_file", 0)))

    def _labels(self) -> dict[str, str]:
        return {
            LABEL: "sandbox",
            f"{LABEL}.owner": f"{socket.gethostname()}:{os.getpid()}:{_start_time(os.getpid())}",
            f"{LABEL}.run": self._label,
            f"{LABEL}.expires": str(int(time.time()) + EXPIRY_SECONDS),
        }

    def _last_words(self) -> str:
        """What the supervisor said on standard error, for a container that ended at once."""
        try:
            text = self._api.logs(self._id, stdout=False, stderr=True, tail=5).decode("utf-8", "replace").strip()
        except DockerException:
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
            "/tmp": "rw,nosuid,nodev,noexec,size=64m,mode=1777",
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
        "HOME": "/tmp",
        "IPYTHONDIR": "/tmp/ipython",
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


def _start_time(pid: int) -> str:
    """When a process started, in clock ticks since boot: tells it from a later one of the same number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return "?"


def _explained(error: Exception) -> str:
    text = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return " ".join(str(text).split())[:500]
