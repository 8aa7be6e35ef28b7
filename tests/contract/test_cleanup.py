"""Nothing is left behind: not after an error, not after Ctrl-C, not when the host process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from sandbox import CellResult, EngineNotFound, Limits, Output, Sandbox, SandboxClosed, StartError
from sandbox.backends.docker import DockerBackend
from sandbox.backends.reaper import reap
from sandbox.engine import find_engine
from sandbox.images import find
from tests.contract.conftest import Make, containers, fine, next_cell_works, value


def test_close_is_quick_and_leaves_nothing(engine: docker.DockerClient) -> None:
    box = Sandbox(image="minimal", label="test-close")
    box.start()
    box.run("import subprocess\nfor _ in range(20): subprocess.Popen(['sleep', '1000'])")
    assert len(containers(engine, "test-close")) == 1
    started = time.monotonic()
    box.close()
    assert time.monotonic() - started < 1
    box.close()
    assert containers(engine, "test-close") == []
    with pytest.raises(SandboxClosed):
        box.run("1")
    with pytest.raises(SandboxClosed):
        box.start()
    with pytest.raises(SandboxClosed):
        box.read("x")


def test_an_exception_in_the_block_leaves_nothing(engine: docker.DockerClient) -> None:
    with pytest.raises(RuntimeError), Sandbox(image="minimal", label="test-block"):
        raise RuntimeError
    assert containers(engine, "test-block") == []


def test_a_start_that_fails_leaves_nothing(engine: docker.DockerClient, tmp_path: Path) -> None:
    box = Sandbox(image="minimal", label="test-start", runtime="no-such-runtime")
    with pytest.raises(StartError, match="no-such-runtime"):
        box.start()
    assert containers(engine, "test-start") == []
    box = Sandbox(image="minimal", label="test-start", limits=Limits(memory="8m"))
    with pytest.raises(
        StartError,
        match=r"raise the limit that is too low \(8 MiB of memory, 256 processes, 512 MiB of disk\)",
    ):
        box.start()
    assert containers(engine, "test-start") == []


def test_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(EngineNotFound, match=r"nowhere\.sock"):
        Sandbox(image="minimal").start()


def test_five_at_once_without_crosstalk(make: Make) -> None:
    with ThreadPoolExecutor(5) as pool:
        boxes = list(pool.map(lambda _: make(), range(5)))
        for number, box in enumerate(boxes):
            fine(box.run(f"name = {number}; open('f', 'w').write(str(name))"))
        results = list(pool.map(lambda box: value(box, "value = [name, open('f').read()]"), boxes))
    assert results == [[n, str(n)] for n in range(5)]


def test_a_container_that_is_gone_is_replaced_and_the_loss_said(
    make: Make, engine: docker.DockerClient
) -> None:
    box = make(label="test-gone")
    fine(box.run("x = 1"))
    (container,) = containers(engine, "test-gone")
    container.remove(force=True)
    cell = box.run("1 + 1")
    if cell.status != "ok":
        assert cell.status == "died"
    assert cell.lost is not None
    assert cell.lost.startswith("everything")
    next_cell_works(box)
    assert len(containers(engine, "test-gone")) == 1


def test_a_container_that_goes_in_mid_cell(make: Make, engine: docker.DockerClient) -> None:
    box = make(label="test-mid")
    cell = box.stream("print('in', flush=True)\nwhile True: pass", timeout=60)
    assert next(cell).text == "in\n"  # type: ignore[union-attr]
    containers(engine, "test-mid")[0].kill()
    started = time.monotonic()
    results: list[CellResult] = []

    def rest() -> Iterator[Output]:
        results.append((yield from cell))

    assert list(rest()) == []
    assert time.monotonic() - started < 10
    assert results[0].status == "died"
    assert (results[0].lost or "").startswith("everything")
    next_cell_works(box)


def test_without_a_host_the_sandbox_ends(engine: docker.DockerClient) -> None:
    backend = DockerBackend(
        find_engine(), find(engine, "minimal").tag, limits=Limits(), inputs={}, label="test-lease", lease=0.5
    )
    backend.start()
    try:
        engine.containers.get(backend.name).wait(timeout=15)
        assert not backend.alive()
    finally:
        backend.stop()


CHILD = """
import sys, time
from sandbox import Sandbox
box = Sandbox(image="minimal", label=sys.argv[1])
print("starting", flush=True)
with box:
    print("started", flush=True)
    if sys.argv[2] == "run":
        print(box.run("print(1)").status, flush=True)
        for output in box.stream("print('in', flush=True)\\nwhile True: pass", timeout=60):
            print("output", flush=True)
    if sys.argv[2] == "hold":
        time.sleep(60)
print("closed", flush=True)
"""


def child(label: str, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, label, mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def read_until(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    for said in process.stdout:
        if said.strip() == line:
            return
    raise AssertionError(process.stderr.read() if process.stderr else "")


def test_a_killed_host_process_is_reaped_for_and_no_other(make: Make, engine: docker.DockerClient) -> None:
    box = make(label="test-living")
    process = child("test-killed", "hold")
    read_until(process, "started")
    assert len(containers(engine, "test-killed")) == 1
    process.kill()
    process.communicate()
    assert reap(engine) >= 1
    assert containers(engine, "test-killed") == []
    assert reap(engine) == 0
    assert len(containers(engine, "test-living")) == 1
    next_cell_works(box)


@pytest.mark.parametrize(
    ("mode", "line", "delay"),
    [
        ("run", "output", 0.0),
        ("run", "started", 0.0),
        *(("run", "starting", n * 0.06) for n in range(8)),
        ("close", "started", 0.01),
    ],
)
def test_control_c_leaves_nothing(engine: docker.DockerClient, mode: str, line: str, delay: float) -> None:
    label = f"test-ctrl-c-{line}-{delay:.2f}"
    process = child(label, mode)
    read_until(process, line)
    # the moment itself is what varies, so a pause is the point here
    threading.Event().wait(delay)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGINT, 0, 1), errors
    assert containers(engine, label) == [], errors
