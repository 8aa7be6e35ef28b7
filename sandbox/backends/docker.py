"""Sandboxes as containers of Docker, or of whatever speaks its API."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

from sandbox.backends import Ended, podman, seccomp
from sandbox.backends.common import (
    AGENT_ARGV,
    AGENT_USER,
    FOLDERS,
    LEASE,
    OPEN_FILES,
    RELAY_ARGV,
    SHARED_MEMORY,
    SUPERVISOR_USER,
    environment,
    mountable,
    supervisor_argv,
)
from sandbox.backends.facts import EngineFacts, look
from sandbox.backends.reaper import FAILURES, LABEL, ownership, reap_in_background
from sandbox.backends.streams import AttachedStream
from sandbox.bridge import ByteStream
from sandbox.engine import Engine
from sandbox.errors import ConnectionLost, EngineError, ImageNotFound, StartError
from sandbox.types import Limits

REMOVAL_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0)

GVISOR_RUNTIME = "runsc"
_NO_GROUPS = "gVisor is run without control groups (--ignore-cgroups)"
GVISOR: Mapping[str, str] = {
    "memory": f"{_NO_GROUPS}: memory is not limited",
    "pids": f"{_NO_GROUPS}: processes are not limited",
    "cpus": f"{_NO_GROUPS}: processor time is not limited",
    "disk": "gVisor gives folders in memory no size of their own",
    "files": "gVisor gives folders in memory no number of files of their own",
    "seccomp": "gVisor answers system calls itself: it applies no filter of ours to the code",
}
"""What gVisor does not enforce as it is run here → why."""


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
        self._inputs = mountable(inputs) if engine.local else {}
        self._runtime = runtime
        self._label = label
        self._lease = lease
        self._network = network
        self.name = f"codeact-{uuid.uuid4().hex[:12]}"
        self._id = self.name
        self._asked = self._made = False
        try:
            with contextlib.ExitStack() as undo:
                self._client = engine.client()
                undo.callback(self._client.close)
                self._facts = look(self._client)
                undo.pop_all()
        except FAILURES as error:
            raise EngineError(
                f"the container engine at {engine.url} does not answer: {_explained(error)}"
            ) from error
        self._api = self._client.api

    @property
    def unenforced(self) -> Mapping[str, str]:
        return unenforced(self._facts, self._runtime, local=self._engine.local)

    def start(self) -> None:
        settings = container_settings(self._limits, runtime=self._runtime)
        if self._facts.podman:
            podman.check_runtime(self._runtime, self._facts.runtime)
            settings = podman.adapted(
                settings, self._limits, local=self._engine.local, rootless=self._facts.rootless
            )
        mounts = [
            docker.types.Mount(f"/workspace/data/{name}", str(path.resolve()), type="bind", read_only=True)
            for name, path in self._inputs.items()
        ]
        reap_in_background(self._engine)
        try:
            self._asked = True
            made = self._api.create_container(
                self._image,
                supervisor_argv(self._lease, network=self._network),
                name=self.name,
                user=SUPERVISOR_USER,
                working_dir="/workspace",
                environment=environment(),
                labels=self._labels(),
                # Podman would run a program of that name; no image of ours has a check that is to be turned off
                healthcheck=None if self._facts.podman else {"test": ["NONE"]},
                stop_signal="SIGKILL",
                use_config_proxy=False,
                host_config=self._api.create_host_config(**settings, mounts=mounts),
            )
            self._made = True
            self._id = str(made["Id"])
            self._api.start(self._id)
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
        self._engine.reach()
        try:
            made = self._api.exec_create(self._id, list(RELAY_ARGV), stdin=True, user=SUPERVISOR_USER)
            return AttachedStream(self._api.exec_start(made["Id"], socket=True))
        except FAILURES as error:
            reason = _explained(error) + self._last_words()
            if self._ended():
                raise ConnectionLost(f"the container ended: {reason}") from error
            raise OSError(reason) from error

    def run_as_agent(self, argv: Sequence[str], *, within: float) -> Ended:
        try:
            made = self._api.exec_create(
                self._id, [*AGENT_ARGV, *argv], stdout=False, stderr=False, user=AGENT_USER
            )
            # what `exec_start` sends, which takes no time limit
            place = f"{self._api.base_url}/v{self._api.api_version}/exec/{made['Id']}/start"
            started = self._api.post(place, json={"Detach": True, "Tty": False}, timeout=within)
            started.raise_for_status()
        except FAILURES as error:
            raise EngineError(f"the engine did not start a process: {_explained(error)}") from error
        return lambda: self._has_ended(made["Id"])

    def _has_ended(self, process: str) -> bool:
        try:
            return not self._api.exec_inspect(process)["Running"]
        except FAILURES:  # such as: the container is gone, which others notice
            return False

    def _ended(self) -> bool:
        """Whether the engine says so; one that does not answer may do so again, with the container in it."""
        try:
            return not self._api.inspect_container(self._id)["State"]["Running"]
        except NotFound:
            return True
        except FAILURES:
            return False

    def alive(self) -> bool:
        try:
            return bool(self._api.inspect_container(self._id)["State"]["Running"])
        except FAILURES:
            return False

    def stop(self) -> None:
        for pause in REMOVAL_PAUSES if self._asked else ():
            time.sleep(pause)
            try:
                self._api.remove_container(self._id, force=True, v=True)
                break
            except NotFound:
                if self._made:
                    break  # else the engine was not heard out, and may make it yet
            except FAILURES:
                pass  # such as a removal that is under way: it is not over before the engine knows of none
        self._client.close()

    def relabel(self, label: str) -> None:
        """An engine changes no labels of what runs, but names, and takes its time: `docker ps` shows the label in the name."""
        name = f"{self.name}-{re.sub('[^a-zA-Z0-9_.-]', '-', label)[:60]}"

        def rename() -> None:
            with contextlib.suppress(*FAILURES):  # such as: it is closed already
                self._api.rename(self._id, name)

        threading.Thread(target=rename, name="sandbox-rename", daemon=True).start()

    def mounted(self) -> frozenset[str]:
        return frozenset(self._inputs)

    def memory_used(self) -> int:
        try:
            used = self._api.stats(self._id, stream=False, one_shot=True)["memory_stats"]
        except FAILURES as error:
            raise EngineError(f"the engine does not tell the memory used: {_explained(error)}") from error
        stats = used.get("stats", {})  # without the page cache, which the kernel drops when it needs to
        return int(used.get("usage", 0)) - int(
            stats.get("total_inactive_file", stats.get("inactive_file", 0))
        )

    def _labels(self) -> dict[str, str]:
        return {**ownership(), f"{LABEL}.run": self._label}

    def _last_words(self) -> str:
        """What the supervisor said on standard error, for a container that ended at once."""
        try:
            text = (
                self._api.logs(self._id, stdout=False, stderr=True, tail=5).decode("utf-8", "replace").strip()
            )
        except FAILURES:
            return ""
        return f" ({text[-500:]})" if text else ""


def unenforced(engine: EngineFacts, runtime: str | None, *, local: bool) -> Mapping[str, str]:
    """What a sandbox on this engine cannot enforce → why. `local` is whether the engine sees this machine's files."""
    found = dict(engine.unenforced)
    if engine.podman:
        found |= podman.unenforced(local=local)
    if (runtime or engine.runtime) == GVISOR_RUNTIME:
        found |= GVISOR
    return found


def container_settings(limits: Limits, *, runtime: str | None = None) -> dict[str, Any]:
    """The settings that contain the code; every one of them is tried by the contract suite."""
    memory = int(limits.memory)
    return {
        "network_mode": "none",
        "read_only": True,
        "init": True,
        "privileged": False,
        "cap_drop": ["ALL"],
        "security_opt": [
            "no-new-privileges:true",
            "seccomp=" + json.dumps(seccomp.profile(), separators=(",", ":")),
        ],
        "pids_limit": int(limits.pids),
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(float(limits.cpus) * 10**9),
        "oom_score_adj": 500,
        "shm_size": SHARED_MEMORY.size,
        "ipc_mode": "private",
        "ulimits": [
            docker.types.Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
            docker.types.Ulimit(name="fsize", soft=int(limits.disk), hard=int(limits.disk)),
            docker.types.Ulimit(name="core", soft=0, hard=0),
        ],
        "tmpfs": {folder.place: f"{folder.flags},{folder.options(limits)}" for folder in FOLDERS},
        "log_config": docker.types.LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
        "runtime": runtime,
    }


def _explained(error: Exception) -> str:
    text = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return " ".join(str(text).split())[:500]
