"""Nothing is left behind: not after an error, not after Ctrl-C, not when the host process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from sandbox import CellResult, EngineNotFound, Limits, Output, Sandbox, SandboxClosed, StartError
from sandbox.backends.bubblewrap import BubblewrapBackend
from sandbox.backends.docker import DockerBackend
from sandbox.engine import find_engine
from sandbox.images import find
from sandbox.roots import find_root
from tests.contract.conftest import EngineHost, Host, Make, fine, next_cell_works, value
from tests.contract.test_lifecycle import wait_until


def test_close_is_quick_and_leaves_nothing(settings: Mapping[str, Any], host: Host) -> None:
    box = Sandbox(image="minimal", label="test-close", **settings)
    box.start()
    box.run("import subprocess\nfor _ in range(20): subprocess.Popen(['sleep', '1000'])")
    assert len(host.existing("test-close")) == 1
    started = time.monotonic()
    box.close()
    assert time.monotonic() - started < 10  # it waits for none of them
    box.close()
    assert host.existing("test-close") == []
    with pytest.raises(SandboxClosed):
        box.run("1")
    with pytest.raises(SandboxClosed):
        box.start()
    with pytest.raises(SandboxClosed):
        box.read("x")


def test_an_exception_in_the_block_leaves_nothing(settings: Mapping[str, Any], host: Host) -> None:
    with pytest.raises(RuntimeError), Sandbox(image="minimal", label="test-block", **settings):
        raise RuntimeError
    assert host.existing("test-block") == []


def test_a_start_that_fails_leaves_nothing(settings: Mapping[str, Any], host: Host) -> None:
    box = Sandbox(image="minimal", label="test-start", limits=Limits(memory="8m"), **settings)
    with pytest.raises(
        StartError,
        match=r"raise the limit that is too low \(8 MiB of memory, 256 processes, 512 MiB of disk\)",
    ):
        box.start()
    assert host.existing("test-start") == []


def test_a_runtime_that_the_engine_does_not_have() -> None:
    box = Sandbox(image="minimal", label="test-runtime", runtime="no-such-runtime")
    with pytest.raises(StartError, match="no-such-runtime"):
        box.start()
    with closing(find_engine().client()) as client:
        assert EngineHost(client).existing("test-runtime") == []


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


def test_a_container_that_is_gone_is_replaced_and_the_loss_said(make: Make, host: Host) -> None:
    box = make(label="test-gone")
    fine(box.run("x = 1"))
    (end,) = host.existing("test-gone")
    end()
    cell = box.run("1 + 1")
    if cell.status != "ok":
        assert cell.status == "died"
    assert cell.lost is not None
    assert cell.lost.startswith("everything")
    next_cell_works(box)
    assert len(host.existing("test-gone")) == 1


def test_a_container_that_goes_in_mid_cell(make: Make, host: Host) -> None:
    box = make(label="test-mid")
    cell = box.stream("print('in', flush=True)\nwhile True: pass", timeout=60)
    assert next(cell).text == "in\n"  # type: ignore[union-attr]
    (end,) = host.existing("test-mid")
    end()
    started = time.monotonic()
    results: list[CellResult] = []

    def rest() -> Iterator[Output]:
        results.append((yield from cell))

    assert list(rest()) == []
    assert time.monotonic() - started < 45
    assert results[0].status == "died"
    assert (results[0].lost or "").startswith("everything")
    next_cell_works(box)


def test_without_a_host_the_sandbox_ends(backend: str, host: Host) -> None:
    sandbox = short_lived(backend)
    try:
        sandbox.start()
        wait_until(lambda: not sandbox.alive(), 15)
    finally:
        sandbox.stop()


def short_lived(backend: str) -> Any:
    """A backend that was started, and to which no host ever connects."""
    common: dict[str, Any] = {"limits": Limits(), "inputs": {}, "label": "test-lease", "lease": 0.5}
    if backend == "bubblewrap":
        return BubblewrapBackend(find_root("minimal"), **common)
    engine = find_engine()
    with closing(engine.client()) as client:
        tag = find(client, "minimal").tag
    return DockerBackend(engine, tag, **common)


CHILD = """
import json, sys, time
from sandbox import Sandbox
box = Sandbox(image="minimal", label=sys.argv[1], **json.loads(sys.argv[3]))
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


def child(label: str, mode: str, settings: Mapping[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, label, mode, json.dumps(settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    for said in process.stdout:
        if said.strip() == line:
            return
    raise AssertionError(process.stderr.read() if process.stderr else "")


def test_a_killed_host_process_is_reaped_for_and_no_other(
    make: Make, settings: Mapping[str, Any], host: Host
) -> None:
    box = make(label="test-living")
    process = child("test-killed", "hold", settings)
    read_until(process, "started")
    assert len(host.existing("test-killed")) == 1
    process.kill()
    process.communicate()
    wait_until(lambda: host.reap() >= 1)  # what is left of it may take a moment to end
    wait_until(lambda: host.existing("test-killed") == [])  # the kernel ends those of bubblewrap, in a moment
    assert host.reap() == 0
    assert len(host.existing("test-living")) == 1
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
def test_control_c_leaves_nothing(
    settings: Mapping[str, Any], host: Host, mode: str, line: str, delay: float
) -> None:
    label = f"test-ctrl-c-{line}-{delay:.2f}"
    process = child(label, mode, settings)
    read_until(process, line)
    # the moment itself is what varies, so a pause is the point here
    threading.Event().wait(delay)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGINT, 0, 1), errors
    assert host.existing(label) == [], errors
