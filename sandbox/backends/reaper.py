"""Removes containers that nobody owns any more: left by a process that was killed, or past their time."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from sandbox import held
from sandbox.backends.identity import start_time
from sandbox.engine import Engine
from sandbox.errors import EngineError

LABEL = "codeact"
EXPIRY_SECONDS = 24 * 3600
PERIOD = 60.0
"""The least number of seconds between two looks at one engine."""
FAILURES = (DockerException, OSError)
"""What the client raises: what its HTTP library raises is an OSError."""

_last_look: dict[str, float] = {}


def ownership() -> dict[str, str]:
    """Labels that say whose a container is, and until when."""
    expires = int(time.time()) + EXPIRY_SECONDS
    return {LABEL: "sandbox", f"{LABEL}.owner": _identity(os.getpid()), f"{LABEL}.expires": str(expires)}


def reap(client: Any) -> int:
    """Removes our containers that no live process owns; how many. Raises DockerException or OSError.

    Of a process of this machine, those are all that it left when it ended; of others, what has ended or expired.
    """
    removed = 0
    for container in client.api.containers(all=True, filters={"label": f"{LABEL}=sandbox"}):
        if _is_left(container.get("Labels") or {}, str(container.get("State"))):
            with contextlib.suppress(DockerException):  # another reaper was faster
                client.api.remove_container(container["Id"], force=True, v=True)
                removed += 1
    return removed


def reap_now(engine: Engine) -> int:
    """Removes what is left over on an engine; how many containers that were. Raises EngineError."""
    try:
        with contextlib.closing(engine.client()) as client:
            return reap(client)
    except FAILURES as error:
        raise EngineError(f"the engine at {engine.url} did not remove what is left over: {error}") from error


def reap_in_background(engine: Engine) -> None:
    """Reaps now and then, beside whatever the caller goes on to do."""
    now = time.monotonic()
    if now - _last_look.get(engine.url, -PERIOD) >= PERIOD:
        _last_look[engine.url] = now
        threading.Thread(target=_reap_quietly, args=(engine,), name="sandbox-reaper", daemon=True).start()


def _reap_quietly(engine: Engine) -> None:
    held.sweep()
    with contextlib.suppress(EngineError):
        reap_now(engine)


def _is_left(labels: Mapping[str, str], state: str) -> bool:
    owner = labels.get(f"{LABEL}.owner", "")
    machine, _, process = owner.rpartition("/")
    pid, _, started = process.partition(":")
    if machine == _machine() and pid.isdigit() and started:
        return start_time(int(pid)) != started
    expires = labels.get(f"{LABEL}.expires", "")
    return state in ("exited", "dead") or not expires.isdigit() or int(expires) < time.time()


def _identity(pid: int) -> str:
    return f"{_machine()}/{pid}:{start_time(pid)}"


@cache
def _machine() -> str:
    """This machine, since it was started, and the namespace in which its process ids count: whether a process can be looked for.
    Machines of one name may share an engine, and all call their first namespace the same."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{socket.gethostname()}/"
