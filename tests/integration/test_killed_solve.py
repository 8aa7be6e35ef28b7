"""`codeact solve` killed with -9 at random moments: after the next `codeact gc` nothing is left but what its runs recorded.

`CODEACT_SEED` chooses the moments, `CODEACT_KILLS` how many there are.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import docker
import pytest
from platformdirs import user_cache_path

from sandbox.engine import find_engine
from tests.command import COMMAND, codeact, environment

pytestmark = pytest.mark.docker

SEED = os.environ.get("CODEACT_SEED", "1")
KILLS = int(os.environ.get("CODEACT_KILLS", "8"))
AT_ONCE = 4
CELLS = (
    "import subprocess\nrows = open('data/stdin').read().split()\nsubprocess.Popen(['sleep', '1000'])\nprint(len(rows))",
    "open('out/big.bin', 'wb').write(bytes(30_000_000))\nopen('out/n.txt', 'w').write(str(len(rows)))\nprint('x' * 20_000)",
    "final_answer(len(rows))",
)
ROWS = "row " * 500_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    replies = [json.dumps({"content": f"On.\n```python\n{cell}\n```"}) for cell in CELLS]
    (tmp_path / "replies.jsonl").write_text("\n".join(replies))
    return tmp_path


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    with closing(find_engine().client()) as client:
        yield client


def solve(folder: Path, number: int, seconds: float | None = None) -> tuple[int, float]:
    """One run: its process, and how long it lived. It is killed after so many seconds."""
    command = [*COMMAND, "solve", "How many rows?", "--model", f"scripted:{folder / 'replies.jsonl'}"]
    options = [
        "--data",
        "-",
        "--image",
        "minimal",
        "--sandbox",
        "docker",
        "--out",
        str(folder / f"out-{number}"),
    ]
    began = time.monotonic()
    with subprocess.Popen(
        [*command, *options],
        cwd=folder,
        env=environment(folder, TMPDIR=str(folder / "tmp")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            said, _ = process.communicate(ROWS, timeout=seconds)
            assert (process.returncode, said) == (0, "500000\n")
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    return process.pid, time.monotonic() - began


def left_of(client: docker.DockerClient, pids: set[int]) -> list[str]:
    """Containers whose owners those processes were."""
    found = client.api.containers(all=True, filters={"label": "codeact=sandbox"})
    owners = {box["Id"]: box["Labels"]["codeact.owner"].rpartition("/")[2] for box in found}
    return [box for box, owner in owners.items() if int(owner.partition(":")[0]) in pids]


def test_after_gc_nothing_is_left(folder: Path, client: docker.DockerClient) -> None:
    chance = random.Random(SEED)
    _, whole = solve(folder, 0)
    moments = [chance.uniform(0, whole) for _ in range(KILLS)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        pids = {pid for pid, _ in threads.map(lambda n: solve(folder, n + 1, moments[n]), range(KILLS))}
    env = environment(folder, TMPDIR=str(folder / "tmp"))
    done = codeact("gc", folder=folder, env=env)
    assert (done.code, done.err) == (0, "")
    assert left_of(client, pids) == []
    assert list((folder / "tmp").iterdir()) == []
    assert list(folder.rglob(".*")) == []
    tickets = [path.name for path in user_cache_path("codeact").glob("starting/*/*")]
    assert [name for name in tickets for pid in pids if f"-{pid}-" in name] == []
    runs = codeact("runs", "--json", folder=folder, env=env)
    assert runs.code == 0
    statuses = [run["status"] for run in json.loads(runs.out)]
    assert statuses.count("answered") >= 1
    assert len(statuses) <= KILLS + 1
    assert "running" not in statuses
