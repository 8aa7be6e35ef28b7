"""A host that is killed with -9, at whatever moment: after the next `codeact gc` nothing is left of what it held."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from sandbox.processes import processes_naming
from tests.command import COMMAND, ROOT
from tests.contract.conftest import Host

MOMENTS = {"starting": 1.0, "cell": 0.2, "call": 0.2, "files": 0.3, "closing": 0.15}
"""Where the host is killed: at most so many seconds after it has said that it is there."""
EACH = {"docker": 6, "bubblewrap": 2}
AT_ONCE = 6
PATIENCE = 20.0

CHILD = """
import sys, time
from pathlib import Path
from sandbox import Sandbox
from sandbox.held import scratch_folder

def say(word): print(word, flush=True)

label, backend = sys.argv[1:]
with scratch_folder() as scratch:
    data = scratch / "stdin"
    data.write_bytes(bytes(8_000_000))
    say("starting")
    box = Sandbox("minimal", label=label, backend=backend, inputs={"a": data}, functions={"slow": time.sleep})
    with box:
        say("cell")
        box.run("import subprocess, time\\nsubprocess.Popen(['sleep', '1000'])\\ntime.sleep(0.5)")
        say("call")
        box.run("from sandbox_guest.host import call\\ncall('slow', 0.5)")
        say("files")
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            box.put(data, "b")
            box.get("b", scratch / "c")
        say("closing")
say("closed")
"""


def kill_at(word: str, seconds: float, label: str, backend: str, env: dict[str, str]) -> int:
    """Runs a host, kills it so long after its word, and gives its process id."""
    command = [sys.executable, "-c", CHILD, label, backend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        assert any(line.strip() == word for line in child.stdout)
        threading.Event().wait(seconds)  # the moment itself is what varies
        child.kill()
    return child.pid


@pytest.mark.parametrize("backend", EACH, indirect=True)
@pytest.mark.parametrize("word", MOMENTS)
def test_nothing_is_left_after_the_next_gc(backend: str, host: Host, tmp_path: Path, word: str) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}
    chance = random.Random(f"{backend} {word}")
    labels = [f"test-killed-{backend}-{word}-{number}" for number in range(EACH[backend])]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        pids = list(
            threads.map(
                lambda label: kill_at(word, chance.uniform(0, MOMENTS[word]), label, backend, env), labels
            )
        )
    assert word == "closing" or list(scratch.iterdir())  # of the last one at least: it is there to be removed
    done = subprocess.run([*COMMAND, "gc"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip().isdigit()
    assert list(scratch.iterdir()) == []
    places = [path.name for path in user_cache_path("codeact").glob("starting/*/*")]
    assert [name for name in places for pid in pids if f"-{pid}-" in name] == []
    deadline = time.monotonic() + PATIENCE
    while backend == "bubblewrap" and any(processes_naming(label) for label in labels):
        assert time.monotonic() < deadline  # the kernel ends them, and takes a moment
        time.sleep(0.05)
    assert [host.existing(label) for label in labels] == [[]] * len(labels)
