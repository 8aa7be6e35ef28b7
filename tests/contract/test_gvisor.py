"""gVisor as an engine's runtime: what it is, what it promises, and what it says that it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sandbox import Sandbox
from tests.contract.conftest import ABSENT, KINDS, next_cell_works, value

pytestmark = pytest.mark.skipif("runsc" in ABSENT, reason=ABSENT.get("runsc", ""))


@pytest.fixture(scope="module")
def settings() -> Mapping[str, Any]:
    return KINDS["runsc"].settings


@pytest.fixture
def gvisor(settings: Mapping[str, Any]) -> Any:
    with Sandbox("minimal", **settings) as box:
        yield box


def test_another_kernel_and_no_rights(gvisor: Sandbox) -> None:
    next_cell_works(gvisor)
    log = value(
        gvisor, "import subprocess\nvalue = subprocess.run(['dmesg'], capture_output=True, text=True).stdout"
    )
    assert "gVisor" in log
    status = value(gvisor, "value = dict(l.rstrip('\\n').split(':', 1) for l in open('/proc/self/status'))")
    assert {status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    assert status["Uid"].split() == ["10002"] * 4


@pytest.mark.parametrize("place", ["/", "/etc", "/opt/venv", "/opt/sandbox/sandbox_guest"])
def test_nothing_is_written_outside(gvisor: Sandbox, place: str) -> None:
    cell = gvisor.run(f"open({place!r} + '/planted', 'w')")
    assert cell.error is not None
    assert cell.error.name in ("PermissionError", "OSError")


def test_no_network(gvisor: Sandbox) -> None:
    cell = gvisor.run("import socket\nsocket.create_connection(('192.0.2.1', 80), 3)")
    assert cell.error is not None
    assert cell.error.name in ("OSError", "ConnectionRefusedError", "PermissionError")


def test_what_it_does_not_enforce_is_declared(gvisor: Sandbox) -> None:
    assert set(gvisor.unenforced) == {"memory", "pids", "cpus", "disk", "files", "seccomp"}
