"""Warm sandboxes: each for one user, well when handed over, and nothing of them left."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox import Pool, PoolClosed, Sandbox, SandboxError, StartError, pool
from sandbox.engine import find_engine
from tests.contract.conftest import Host, fine, next_cell_works, value

PATIENCE = 60.0


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    with closing(find_engine().client()) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_left(engine: docker.DockerClient) -> Iterator[None]:
    before = ours(engine)
    yield
    assert ours(engine) <= before


def labelled(engine: docker.DockerClient, label: str) -> list[Any]:
    found = engine.containers.list(filters={"label": f"codeact.run={label}"}, ignore_removed=True)
    return [container for container in found if container.id in ours(engine)]


def ours(engine: docker.DockerClient) -> set[str]:
    """Containers of this process."""
    return of(engine, os.getpid())


def of(engine: docker.DockerClient, pid: int) -> set[str]:
    found = engine.containers.list(all=True, filters={"label": "codeact=sandbox"}, ignore_removed=True)
    owner = f"/{pid}:"
    return {container.id for container in found if owner in container.labels["codeact.owner"]}


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def prepared(box: Sandbox) -> None:
    fine(box.run("import decimal as dec\nsecret = 41\nsecret"))


def test_one_is_handed_over_as_if_it_were_new(
    settings: Mapping[str, Any], engine: docker.DockerClient, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with Pool("minimal", size=1, prepare=prepared, **settings) as warm:
        assert warm.wait(PATIENCE)
        with warm.take(
            inputs={"a.csv": tmp_path / "a.csv"}, functions={"double": lambda x: 2 * x}, label="run-7"
        ) as box:
            cell = box.run("1 / 0")
            assert cell.error is not None
            assert "Cell 1, line 1" in cell.error.traceback
            assert value(box, "value = [In[:2], Out, dec.__name__, secret]") == [
                ["", "1 / 0"],
                {},
                "decimal",
                41,
            ]
            assert value(box, "value = open('data/a.csv').read()") == "x,y\n1,2\n"
            assert value(box, "from sandbox_guest.host import call\nvalue = call('double', 21)") == 42
            if settings["backend"] == "docker":
                eventually(lambda: any("run-7" in c.name for c in labelled(engine, "pool")))
        with warm.take() as other:
            assert other is not box
            assert other.run("from sandbox_guest.host import call\ncall('double', 21)").status == "error"
            assert value(other, "import os\nvalue = os.listdir('data')") == []
            next_cell_works(other)


def test_large_inputs_are_mounted_in_one_of_their_own(engine: docker.DockerClient, tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(pool.WARM_INPUTS + 1)
    with (
        Pool("minimal", size=1, prepare=prepared) as warm,
        warm.take(inputs={"big": tmp_path / "big"}, label="test-cold") as box,
    ):
        size = "import os\nvalue = [os.path.getsize('data/big'), secret]"
        assert value(box, size) == [pool.WARM_INPUTS + 1, 41]
        assert len(labelled(engine, "test-cold")) == 1


def once(code: str) -> Callable[[Sandbox], None]:
    """A preparation that runs code in the first sandbox only."""
    numbers = itertools.count()

    def prepare(box: Sandbox) -> None:
        number = next(numbers)
        if number == 0:
            fine(box.run(code))
        fine(box.run(f"number = {number}"))

    return prepare


DYING = "import os, threading\nthreading.Timer(0.3, os._exit, [3]).start()"
FROZEN = "import os, subprocess\nsubprocess.Popen(['sh', '-c', f'sleep 0.3; kill -STOP {os.getpid()}'])"


@pytest.mark.parametrize("code", [DYING, FROZEN], ids=["died", "frozen"])
def test_one_that_is_not_well_is_replaced(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(pool, "PROBE_PERIOD", 1.0)
    monkeypatch.setattr(pool, "PROBE_SECONDS", 1.0)
    numbers: list[int] = []
    prepare = once(code)

    def counted(box: Sandbox) -> None:
        prepare(box)
        numbers.append(1)

    with Pool("minimal", size=1, prepare=counted) as warm:
        eventually(lambda: len(numbers) == 2)
        with warm.take() as box:
            assert value(box, "value = number") == 1
            next_cell_works(box)


def test_a_container_that_is_gone_is_not_handed_over(engine: docker.DockerClient) -> None:
    with Pool("minimal", size=1, prepare=once("")) as warm:
        assert warm.wait(PATIENCE)
        (idle,) = labelled(engine, "pool")
        idle.remove(force=True)
        with warm.take() as box:
            next_cell_works(box)
            assert idle.id not in ours(engine)


def test_an_error_in_the_background_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = itertools.count()
    fixed = threading.Event()

    def prepare(box: Sandbox) -> None:
        if not fixed.is_set():
            next(failures)
            raise OSError("no licence\nfor pandas")

    monkeypatch.setattr(pool, "FIRST_PAUSE", 0.01)
    with Pool("minimal", size=2, prepare=prepare) as warm:
        with pytest.raises(
            StartError, match=r"^the pool has no sandbox: .*no licence for pandas.* \(tried \d+"
        ):
            warm.take()
        fixed.set()

        def handed_over() -> bool:
            try:
                with warm.take() as box:
                    next_cell_works(box)
            except StartError:
                return False
            return True

        eventually(handed_over)


def test_what_cannot_start_pauses_longer_each_time() -> None:
    with Pool("minimal", size=3, runtime="no-such-runtime") as warm:
        with pytest.raises(StartError, match="no-such-runtime") as told:
            warm.take()
        assert "\n" not in str(told.value)
        with pytest.raises(StartError, match="again in"):
            warm.wait()


def test_many_users_get_one_each_and_starts_are_bounded(engine: docker.DockerClient) -> None:
    at_once, most = 0, 0
    lock = threading.Lock()

    def prepare(box: Sandbox) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        fine(box.run("mine = []"))
        with lock:
            at_once -= 1

    def use(number: int) -> list[int]:
        with warm.take() as box:
            fine(box.run(f"mine.append({number})"))
            found = value(box, "value = mine")
            assert isinstance(found, list)
            return found

    with Pool("minimal", size=3, prepare=prepare) as warm, ThreadPoolExecutor(8) as users:
        assert list(users.map(use, range(8))) == [[n] for n in range(8)]
        eventually(lambda: warm.wait())
        assert len(ours(engine)) == 3
    assert most <= pool.STARTERS


def test_who_asks_first_gets_first() -> None:
    go = threading.Event()
    served: list[int] = []

    def use(number: int) -> None:
        with warm.take():
            served.append(number)

    def prepare(box: Sandbox) -> None:
        go.wait(PATIENCE)

    with Pool("minimal", size=1, prepare=prepare) as warm:
        with ThreadPoolExecutor(4) as users:
            for number in range(4):
                users.submit(use, number)
                eventually(lambda expected=number + 1: len(warm._queue) == expected)  # type: ignore[misc]
            go.set()
        assert served == [0, 1, 2, 3]


def test_close_ends_all_that_there_is(engine: docker.DockerClient) -> None:
    reached, hold = threading.Event(), threading.Event()

    def prepare(box: Sandbox) -> None:
        if first:
            first.pop()
            return
        reached.set()
        hold.wait(PATIENCE)

    first = [1, 1]
    warm = Pool("minimal", size=2, prepare=prepare)
    taken = warm.take()
    assert reached.wait(PATIENCE)
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            while True:
                warm.take()
        except SandboxError as error:
            waiting.append(error)

    user = threading.Thread(target=wait)
    user.start()
    eventually(lambda: len(warm._queue) == 1)
    hold.set()
    warm.close()
    user.join()
    assert ours(engine) == set()
    assert taken.closed
    assert isinstance(waiting[0], PoolClosed)
    with pytest.raises(PoolClosed):
        warm.take()
    warm.close()


@pytest.mark.parametrize("moment", range(6))
def test_closed_while_one_starts(
    settings: Mapping[str, Any], engine: docker.DockerClient, moment: int
) -> None:
    warm = Pool("minimal", size=1, **settings)
    threading.Event().wait(moment * 0.15)  # the moment is what varies
    warm.close()
    assert ours(engine) == set()


def test_a_pool_of_none() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Pool("minimal", size=0)


OWNER = """
import json, sys, time
from sandbox import Pool
warm = Pool("minimal", size=2, **json.loads(sys.argv[1]))
warm.wait(60)
taken = warm.take(label="run-of-the-killed")
print("taken", flush=True)
time.sleep(60)
"""


def test_of_a_killed_owner_all_go_the_taken_too_and_of_a_living_one_none(
    settings: Mapping[str, Any], backend: str, host: Host, engine: docker.DockerClient
) -> None:
    """Whose a container is does not hang on its label, which says `pool` for all of them."""
    if backend != "docker":
        pytest.skip("bubblewrap's sandboxes end with their owner, by the kernel's hand")
    with Pool("minimal", size=1, **settings) as warm, warm.take(label="run-of-the-living") as box:
        warm.wait(60)
        mine = ours(engine)
        with subprocess.Popen(
            [sys.executable, "-c", OWNER, json.dumps(dict(settings))], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "taken\n"
            assert len(of(engine, process.pid)) >= 2
            process.kill()
        eventually(lambda: host.reap() >= 0 and of(engine, process.pid) == set())
        assert ours(engine) == mine
        next_cell_works(box)
