"""Runs that are cancelled at every point at which they can be: nothing is left behind, and the next run works."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from codeact import Agent, ScriptedModel, events, journal, tool
from sandbox.engine import find_engine

pytestmark = pytest.mark.docker

AT_ONCE = 4
RUNS = int(os.environ.get("CODEACT_MOMENTS", "10"))
"""Runs that are left in each way; each at another point."""
CELLS = (
    "from tools import look\nprint(look(1), flush=True)\nx = 1",
    "import time\ntime.sleep(0.1)\nprint('so')\nfinal_answer(x)",
)


@tool(effects="read")
async def look(number: int) -> int:
    """Looks."""
    await asyncio.sleep(0.05)
    return number


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with closing(find_engine().client()) as client:
        yield client


def new_agent(runs: Path) -> Agent[Any]:
    replies = [f"On.\n```python\n{cell}\n```" for cell in CELLS]
    return Agent(ScriptedModel(replies), image="minimal", backend="docker", runs=runs, tools=[look])


def close(agent: Agent[Any], taken: int) -> None:
    stream = agent.stream("Do it.")
    for _ in range(taken):
        next(stream)
    stream.close()


def interrupt(agent: Agent[Any], taken: int) -> None:
    """As Ctrl-C does while an observer is at work; whoever catches it may keep its frames."""
    seen: list[events.Event] = []

    def observe(event: events.Event) -> None:
        seen.append(event)
        if len(seen) == taken:
            raise KeyboardInterrupt

    agent.run("Do it.", observers=[observe])


def cancel(agent: Agent[Any], taken: int) -> None:
    """The task is cancelled where it awaits the next event."""

    async def consume() -> None:
        left = taken
        async for _ in agent.astream("Do it."):
            left -= 1
            if not left:
                this = asyncio.current_task()
                assert this is not None
                this.cancel()

    asyncio.run(consume())


WAYS: dict[str, Callable[[Agent[Any], int], None]] = {
    "close": close,
    "interrupt": interrupt,
    "cancel": cancel,
}


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """Numbers of events after which a run is left: of those of one kind in a row, the first."""
    kinds = [event.type for event in new_agent(tmp_path_factory.mktemp("whole")).stream("Do it.")]
    found = [
        number
        for number, (kind, last) in enumerate(zip(kinds, ["", *kinds[:-1]], strict=True))
        if kind != last
    ]
    return [number + 1 for number in found][:-1]


@pytest.mark.parametrize("way", WAYS)
def test_at_each_event(tmp_path: Path, client: docker.DockerClient, points: list[int], way: str) -> None:
    start, step = list(WAYS).index(way), max(1, len(points) // RUNS)
    chosen = points[start % step :: step]
    before = threading.active_count()
    kept: list[BaseException] = []

    def leave(taken: int) -> None:
        try:
            WAYS[way](new_agent(tmp_path), taken)
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            kept.append(error)  # as a notebook does

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(leave, chosen))
    assert bool(kept) == (way != "close")
    runs = sorted(path.parent for path in tmp_path.glob("*/run.jsonl"))
    assert len(runs) == len(chosen)
    for run in runs:
        assert client.api.containers(all=True, filters={"label": f"codeact.run={run.name}"}) == []
        assert not journal.is_live(run)
        assert list(run.glob(".*")) == []
        assert journal.load(run)[0].type == "run_started"
    assert threading.active_count() <= before + 1  # of the sandboxes' reaper, at times
    assert new_agent(tmp_path).run("Do it.").answer == 1
