"""What a pool makes of starts that fail, and of inputs that cannot be read; without containers."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sandbox import FileError, Pool, Sandbox, StartError
from sandbox import pool as pools

SECONDS = 10


class Starts:
    """In place of `Sandbox.start`: the next start of a pool succeeds or fails as the test says."""

    def __init__(self) -> None:
        self._outcomes: list[StartError | None] = []
        self._said = threading.Semaphore(0)

    def __call__(self, pool: Pool, box: Sandbox) -> None:
        assert self._said.acquire(timeout=SECONDS)
        error = self._outcomes.pop(0)
        if error is not None:
            raise error

    def say(self, outcome: StartError | None) -> None:
        self._outcomes.append(outcome)
        self._said.release()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    made = Starts()
    monkeypatch.setattr(Pool, "_start", lambda pool, box: made(pool, box))
    monkeypatch.setattr(pools, "FIRST_PAUSE", 0.0)
    return made


def test_a_start_that_fails_beside_a_sandbox_that_is_ready_is_waited_out(starts: Starts) -> None:
    with Pool("minimal", size=2) as pool:
        starts.say(None)
        with pool._changed:
            assert pool._changed.wait_for(lambda: pool._idle, SECONDS)
        starts.say(StartError("the engine is busy"))
        with pool._changed:
            assert pool._changed.wait_for(lambda: pool._failure, SECONDS)
        threading.Timer(0.05, starts.say, [None]).start()
        assert pool.wait(SECONDS)


def test_a_start_that_fails_where_none_is_ready_is_told(starts: Starts) -> None:
    with Pool("minimal", size=1) as pool:
        starts.say(StartError("the engine is busy"))
        with pytest.raises(StartError, match="the pool has no sandbox: the engine is busy"):
            pool.wait(SECONDS)
        starts.say(None)


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000])
def test_inputs_that_cannot_be_looked_at_are_named(starts: Starts, name: str) -> None:
    with Pool("minimal", size=1) as pool:
        with pytest.raises(FileError, match=r"^x+: cannot be read on the host: File name too long$"):
            pool.take(inputs={"a.csv": Path(name)})
        starts.say(None)


def test_hosts_and_packages_of_a_generator_are_those_of_all_its_sandboxes(starts: Starts) -> None:
    with Pool("minimal", size=1, packages=iter(["humanize"]), network=map(str, ["a.example"])) as pool:
        made = [pool._make() for _ in range(2)]
        assert [box._packages for box in made] == [["humanize"]] * 2
        assert [str(box._network) for box in made] == ["a.example"] * 2
        starts.say(None)
