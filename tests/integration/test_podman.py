"""Podman behind its Docker-compatible socket: a service of the test's own, with storage of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from sandbox import Sandbox, StartError
from sandbox.backends.podman import FILES
from sandbox.checks import check_sandbox
from sandbox.engine import Engine, find_engine
from sandbox.probe import ping
from tests.command import ROOT
from tests.contract.conftest import next_cell_works, value
from tests.contract.test_lifecycle import wait_until
from tests.remote import copy_image, free_port

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(
        not shutil.which("podman") or os.geteuid() != 0, reason="a service of our own needs podman and root"
    ),
]

SUITE = ("test_containment", "test_limits")
"""The modules of the contract suite that run here, too: what an engine may do in another way than Docker does."""
CHOSEN = "[docker and not flood and not storm"
"""Of those, what is the engine's to do, and not the supervisor's."""
CONFIG = """[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
"""
STORAGE = '[storage]\ndriver = "{driver}"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/data"\n'


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """How it is reached → where: by its socket, and as an engine elsewhere would be."""
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONFIG)
    (folder / "storage.conf").write_text(STORAGE.format(driver="overlay", folder=folder))
    env = {
        **os.environ,
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    places = {"socket": f"unix://{folder / 'podman.sock'}", "tcp": f"tcp://127.0.0.1:{free_port()}"}
    with (folder / "log").open("wb") as log:
        daemons = [
            subprocess.Popen(
                ["podman", "system", "service", "--time=0", place],
                cwd=folder,
                env=env,
                stdout=log,
                stderr=log,
            )
            for place in places.values()
        ]
    try:
        wait_until(lambda: ping(folder / "podman.sock") is None, 20)
        wait_until(lambda: answers(places["tcp"]), 20)
        with closing(Engine(places["socket"], local=True).client()) as client:
            copy_image(client, "minimal")
        yield places
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait(20)
        subprocess.run(["podman", "rm", "--all", "--force"], env=env, capture_output=True, check=False)
        end_those_that_name(folder)
        unmount = ["umount", "--lazy", str(folder / "data" / "overlay")]
        while subprocess.run(unmount, capture_output=True, check=False).returncode == 0:
            pass  # each service has mounted it once more


def end_those_that_name(folder: Path) -> None:
    """What watches a container outlives it, and would mount the folder once more to clean up behind it."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if str(folder).encode() in line.read_bytes():
                os.kill(int(line.parent.name), signal.SIGKILL)


def answers(place: str) -> bool:
    host, _, port = place.removeprefix("tcp://").rpartition(":")
    try:
        socket.create_connection((host, int(port))).close()
    except OSError:
        return False
    return True


@pytest.fixture
def podman(services: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", services["socket"])


def test_the_contract_suite(services: dict[str, str]) -> None:
    names = [f"tests/contract/{name}.py" for name in SUITE]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", CHOSEN, *names],
        cwd=ROOT,
        env={**os.environ, "DOCKER_HOST": services["socket"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.usefixtures("podman")
def test_what_it_does_not_enforce_is_declared() -> None:
    with Sandbox("minimal", backend="docker") as box:
        assert set(box.unenforced) == {"files"}
        next_cell_works(box)
        assert box.memory() > 10_000_000
        full = box.run("for name in 'ab': open(name, 'wb').write(bytes(300_000_000))")
        assert "No space left" in str(full.error)
        next_cell_works(box)


@pytest.mark.usefixtures("podman")
def test_the_doctor_tries_what_is_promised_and_prints_what_is_not() -> None:
    checks = list(check_sandbox("minimal", None, "docker"))
    assert [check for check in checks if not check.ok] == []
    assert [check.detail for check in checks if not check.enforced] == [FILES]
    assert len([check for check in checks if check.tried not in ("", "nothing")]) > 10


@pytest.mark.usefixtures("podman")
def test_a_runtime_that_it_would_pass_over_is_refused() -> None:
    with pytest.raises(
        StartError, match=r"'runsc' cannot be had through Podman.*which runs runc.*containers\.conf"
    ):
        Sandbox("minimal", backend="docker", runtime="runsc").start()


def test_one_elsewhere_applies_its_own_filter(
    services: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", services["tcp"])
    assert not find_engine().local
    (tmp_path / "a.txt").write_text("sent")
    with Sandbox("minimal", backend="docker", inputs={"a.txt": tmp_path / "a.txt"}) as box:
        assert set(box.unenforced) == {"files", "seccomp"}
        assert value(box, "value = open('data/a.txt').read()") == "sent"
        status = value(box, "value = dict(l.rstrip('\\n').split(':', 1) for l in open('/proc/self/status'))")
        assert (status["Seccomp"].strip(), int(status["CapBnd"], 16)) == ("2", 0)
