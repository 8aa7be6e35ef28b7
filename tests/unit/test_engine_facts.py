"""What is declared as not enforced, from what engines say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sandbox.backends.docker import unenforced
from sandbox.backends.facts import told

WHOLE = {
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsPeriod": True,
    "CpuCfsQuota": True,
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=seccomp,profile=default"],
}
ROOTLESS = {"SecurityOptions": ["name=seccomp,profile=default", "name=rootless", "name=cgroupns"]}
GROUPS = {"memory", "pids", "cpus"}


def podman(*controllers: str, version: str = "v2", rootless: bool = True) -> dict[str, Any]:
    return {
        "host": {
            "cgroupControllers": list(controllers),
            "cgroupVersion": version,
            "security": {"rootless": rootless},
        }
    }


@pytest.mark.parametrize(
    ("info", "libpod", "expected"),
    [
        (WHOLE, None, set()),
        (WHOLE | ROOTLESS, None, set()),
        (WHOLE | ROOTLESS | {"CgroupDriver": "none"}, None, GROUPS),
        (WHOLE | ROOTLESS | {"CpuCfsQuota": False}, None, {"cpus"}),
        (WHOLE | {"CpuCfsPeriod": False, "PidsLimit": False}, None, {"cpus", "pids"}),
        (WHOLE | {"SwapLimit": False}, None, {"swap"}),
        (WHOLE | {"MemoryLimit": False, "SwapLimit": False}, None, {"memory"}),
        ({}, None, set()),  # an engine that says nothing: `codeact doctor` tries
        (WHOLE, podman("cpu", "memory", "pids", rootless=False), {"files"}),
        (WHOLE, podman("cpuset", "cpu", "memory", "pids", version="v1", rootless=False), {"files"}),
        (WHOLE, podman("memory", "pids"), {"files", "cpus"}),
        (WHOLE, podman("cpu", "memory", "pids", version="v1"), {"files", *GROUPS}),
        (WHOLE, podman(), {"files", *GROUPS}),
        (WHOLE | {"DefaultRuntime": "runsc"}, None, {*GROUPS, "disk", "files", "seccomp"}),
    ],
)
def test_what_an_engine_cannot_hold_is_declared(
    info: Mapping[str, Any], libpod: Mapping[str, Any] | None, expected: set[str]
) -> None:
    declared = unenforced(told(info, libpod), None, local=True)
    assert set(declared) == expected
    assert all(reason and "\n" not in reason for reason in declared.values())


@pytest.mark.parametrize(
    ("info", "expected"), [(WHOLE, False), (WHOLE | ROOTLESS, True), (WHOLE | {"Rootless": True}, True)]
)
def test_an_engine_without_root_is_known(info: Mapping[str, Any], expected: bool) -> None:
    assert told(info).rootless is expected
