"""A private engine, started for real beside whatever else runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox import engine
from sandbox.engine import Engine, ensure_engine, stop_engine
from sandbox.packages import find_program
from sandbox.private_engine import Places
from sandbox.probe import ping
from sandbox.processes import processes_naming

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0 or not find_program("dockerd"), reason="needs root and dockerd"),
]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """An own cache, and a machine where no other engine is to be found."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engine, "SYSTEM_SOCKET", tmp_path / "absent.sock")
    yield Places.for_user()
    stop_engine()


def facts(found: Engine) -> dict[str, object]:
    with closing(found.client()) as client:
        information = client.info()
        assert isinstance(information, dict)
        return information


def test_it_runs_apart_and_leaves_nothing(places: Places) -> None:
    found = ensure_engine(print)
    assert found == Engine(f"unix://{places.socket}", local=True)
    assert facts(found)["DockerRootDir"] == str(places.data)
    with closing(found.client()) as client:
        assert {network.name for network in client.networks.list()} == {"host", "none"}
    assert stop_engine()
    assert ping(places.socket) is not None
    assert not processes_naming(str(places.run))
    assert not [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(places.home) in line
    ]
    assert places.data.is_dir()


def test_two_at_once_start_one(places: Places) -> None:
    code = (
        "import sys; from pathlib import Path; from sandbox import engine\n"
        "engine.SYSTEM_SOCKET = Path('/absent.sock'); sys.exit(engine.main(['ensure']))"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [starter.communicate(timeout=120) for starter in starters]
    assert [output for output, _ in outputs] == [f"unix://{places.socket}\n"] * 2
    assert sorted(len(errors.splitlines()) for _, errors in outputs) == [0, 1]


def test_after_a_kill_it_starts_again_with_its_images(places: Places) -> None:
    identity = facts(ensure_engine(print))["ID"]
    os.kill(int(places.pid_file.read_text()), signal.SIGKILL)
    again = ensure_engine(print)
    assert facts(again)["ID"] == identity


@pytest.mark.skipif(not shutil.which("mount"), reason="needs mount")
def test_where_overlay_cannot_be_mounted_it_does_without(places: Places, tmp_path: Path) -> None:
    """The data of the engine on an overlay file system, as when we run inside a container."""
    layers, home = tmp_path / "layers", places.home.parent
    layers.mkdir()
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(layers)], check=True)
    try:
        for name in ("lower", "upper", "work"):
            (layers / name).mkdir()
        options = ",".join(f"{name}dir={layers / name}" for name in ("lower", "upper", "work"))
        subprocess.run(["mount", "-t", "overlay", "none", "-o", options, str(home)], check=True)
        try:
            assert facts(ensure_engine(print))["Driver"] in ("vfs", "fuse-overlayfs")
            assert stop_engine()
        finally:
            subprocess.run(["umount", str(home)], check=True)
    finally:
        subprocess.run(["umount", str(layers)], check=True)
