"""The queue to start: bounded, in order, across threads and processes, and not held up by the dead."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sandbox import SandboxClosed, StartError, queueing
from sandbox.queueing import turn_to_start

ENGINE = "unix:///engine.sock"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(queueing, "PLACES", 2)
    yield tmp_path / "codeact" / "starting"
    queueing.sweep()
    assert [path for path in (tmp_path / "codeact").rglob("*") if path.is_file()] == []


HOLDER = f"""
import sys
from sandbox import queueing
queueing.PLACES = 2
with queueing.turn_to_start({ENGINE!r}):
    print("in", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder() -> Iterator[subprocess.Popen[str]]:
    """A process that has a place, or waits for one."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def has_place(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "in\n"


def test_no_more_at_once_than_there_are_places() -> None:
    lock = threading.Lock()
    now, most = 0, 0

    def start(_: int) -> None:
        nonlocal now, most
        with turn_to_start(ENGINE):
            with lock:
                now += 1
                most = max(most, now)
            threading.Event().wait(0.01)
            with lock:
                now -= 1

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(start, range(24)))
    assert most == 2


def test_nobody_gets_in_between_a_number_and_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """An early number whose place comes late would go before those who are in already."""
    others: list[threading.Thread] = []
    let_in = threading.Event()

    def other() -> None:
        with turn_to_start(ENGINE):
            let_in.set()

    def numbers() -> Iterator[int]:
        others.append(threading.Thread(target=other))
        others[0].start()
        assert not let_in.wait(0.3)
        yield from range(2)

    monkeypatch.setattr(queueing, "_numbers", numbers())
    with turn_to_start(ENGINE):
        assert let_in.wait(30)
    others[0].join()


def test_other_processes_count_and_the_dead_do_not() -> None:
    with holder() as first, holder() as second:
        assert has_place(first)
        assert has_place(second)
        with pytest.raises(SandboxClosed), turn_to_start(ENGINE, lambda: True):
            pass
        with turn_to_start("unix:///another.sock"):
            pass
        first.kill()
        first.wait()
        with turn_to_start(ENGINE):
            pass


def test_what_the_killed_left_is_swept_and_nothing_else(cache: Path) -> None:
    with holder() as living, holder() as dead:
        assert has_place(living)
        assert has_place(dead)
        dead.kill()
        dead.wait()
        assert queueing.sweep() == 1
        assert [f"-{living.pid}-" in path.name for path in cache.glob("*/*")] == [True]
        assert queueing.sweep() == 0


def test_who_comes_first_goes_first(cache: Path) -> None:
    order: list[int] = []

    def start(number: int) -> None:
        with turn_to_start(ENGINE):
            order.append(number)

    with ThreadPoolExecutor(6) as threads, ExitStack() as held:
        for _ in range(2):
            held.enter_context(turn_to_start(ENGINE))
        for number in range(6):
            threads.submit(start, number)
            while len(list(cache.rglob("[0-9]*-*"))) < 3 + number:
                threading.Event().wait(0.005)
        queueing.PLACES = 1
        held.close()
    assert order == list(range(6))


def test_a_wait_that_is_too_long_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "LONGEST_WAIT", 0.05)
    told = pytest.raises(StartError, match=r"2 others have been starting for 0 s; .*codeact doctor")
    with turn_to_start(ENGINE), turn_to_start(ENGINE), told, turn_to_start(ENGINE):
        pass


def test_without_a_cache_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with turn_to_start(ENGINE), turn_to_start(ENGINE), turn_to_start(ENGINE):
        pass
    (tmp_path / "file").unlink()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
