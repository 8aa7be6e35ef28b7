"""What an engine is and what it can hold, by its own words: the one place where engines are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docker.errors import APIError

PODMAN = "Podman Engine"
LIBPOD_INFO = "/v4.0.0/libpod/info"
CONTROLLERS: Mapping[str, tuple[str, ...]] = {
    "memory": ("MemoryLimit",),
    "pids": ("PidsLimit",),
    "cpus": ("CpuCfsPeriod", "CpuCfsQuota"),
}
"""Our limit → what `/info` of an engine calls the parts of the kernel that hold it."""
LOST: Mapping[str, str] = {
    "memory": "memory is not limited",
    "pids": "processes are not limited",
    "cpus": "processor time is not limited",
    "swap": "what is beyond the memory limit may go to swap",
}
NO_GROUPS = "the engine runs without control groups of its own (CgroupDriver is none)"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """`runtime` is what it runs containers with unless told otherwise; `unenforced` is what it cannot hold on its
    machine → why, in one line."""

    podman: bool = False
    rootless: bool = False
    runtime: str = ""
    unenforced: Mapping[str, str] = field(default_factory=dict)


def look(client: Any) -> EngineFacts:
    """Asks an engine what it is. Raises DockerException or OSError."""
    components = client.version().get("Components") or ()
    podman = any(component.get("Name") == PODMAN for component in components)
    try:
        info = client.info()
    except APIError:  # a proxy before the engine may forbid it: then only `codeact doctor` can find out
        info = {}
    return told(info, _libpod(client.api) if podman else None)


def _libpod(api: Any) -> Mapping[str, Any]:
    """Podman's own words: its Docker-compatible ones claim control groups that a user without root has not got."""
    answer = api.get(f"{api.base_url}{LIBPOD_INFO}", timeout=api.timeout)
    answer.raise_for_status()
    found: Mapping[str, Any] = answer.json()
    return found


def told(info: Mapping[str, Any], libpod: Mapping[str, Any] | None = None) -> EngineFacts:
    """What follows from `/info`, and from Podman's own where there is one."""
    rootless = bool(info.get("Rootless")) or "name=rootless" in (info.get("SecurityOptions") or ())
    lost = _not_held(info) if libpod is None else _not_delegated(libpod.get("host") or {})
    if "memory" not in lost and info.get("SwapLimit") is False:
        lost["swap"] = f"the engine's control groups do not count swap: {LOST['swap']}"
    return EngineFacts(libpod is not None, rootless, str(info.get("DefaultRuntime") or ""), lost)


def _not_held(info: Mapping[str, Any]) -> dict[str, str]:
    if info.get("CgroupDriver") == "none":
        return {name: f"{NO_GROUPS}: {LOST[name]}" for name in CONTROLLERS}
    return {
        name: f"the engine's machine lacks what holds it ({', '.join(parts)}): {LOST[name]}"
        for name, parts in CONTROLLERS.items()
        if any(info.get(part) is False for part in parts)
    }


def _not_delegated(host: Mapping[str, Any]) -> dict[str, str]:
    """A user's Podman has the controllers that were delegated to that user, and with control groups v1 none."""
    known = set(host.get("cgroupControllers") or ())
    v1 = host.get("cgroupVersion") == "v1" and bool((host.get("security") or {}).get("rootless"))
    return {
        name: f"the control group {controller!r} is not this Podman's to use: {LOST[name]}"
        for name, controller in (("memory", "memory"), ("pids", "pids"), ("cpus", "cpu"))
        if v1 or controller not in known
    }
