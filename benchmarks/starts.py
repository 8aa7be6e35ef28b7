"""Starts of all kinds, files in and out, and what many sandboxes at once cost."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Figure, median_seconds
from benchmarks.plain import execute, plain_kernel
from benchmarks.scale import growth
from codeact.agent import Agent
from codeact.events import SandboxRestarted
from codeact.models import ScriptedModel
from codeact.types import RunLimits
from sandbox import Pool, Sandbox

MEGABYTES = 64
IMAGE = "data"
RESTORED = (1, 10, 50)


def figures(runs: int, alive: int) -> Iterator[Figure]:
    """`runs` starts of each kind; up to `alive` sandboxes at once."""
    plain = median_seconds(plain_start, runs)
    yield Figure("cold start of a plain kernel", plain, "s")
    yield Figure(
        "new kernel in a sandbox that runs", statistics.median(restarts(runs)), "s", plain, "a plain kernel"
    )
    yield Figure("hand-over from a pool", 1000 * statistics.median(hand_overs(runs)), "ms", aim="≤ 20 ms")
    into, out = transfers()
    yield Figure("files in", into, "MB/s")
    yield Figure("files out", out, "MB/s")
    for cells, seconds in restores():
        yield Figure(f"state of {cells} cells restored", seconds, "s")
    grown = growth(alive, IMAGE)
    for started in (grown[0], grown[alive // 2], grown[-1]):
        yield Figure(f"start as number {started.alive}", started.seconds, "s")
        yield Figure(f"memory of number {started.alive}", started.memory / 2**20, "MiB")


def restores() -> Iterator[tuple[int, float]]:
    """Cells that had run, and the seconds until a new kernel had their state after the first one died."""
    for cells in RESTORED:
        replies = [block(f"x{n} = {n}") for n in range(cells)]
        replies += [block("import os; os._exit(1)"), block("final_answer(x0)")]
        limits = RunLimits(turns=None)
        with tempfile.TemporaryDirectory() as folder:
            events = Agent(ScriptedModel(replies), image=IMAGE, limits=limits, runs=Path(folder)).stream(
                "Go on."
            )
            yield cells, sum(event.seconds for event in events if isinstance(event, SandboxRestarted))


def block(code: str) -> str:
    return f"Next.\n```python\n{code}\n```"


def plain_start() -> None:
    with plain_kernel() as kernel:
        execute(kernel, "6 * 7")


def restarts(times: int) -> list[float]:
    """Seconds from a kernel's death to the next cell's result."""
    taken = []
    with Sandbox(IMAGE) as box:
        for _ in range(times):
            box.run("import os; os._exit(0)")
            began = time.perf_counter()
            assert box.run("6 * 7").result == "42"
            taken.append(time.perf_counter() - began)
    return taken


def hand_overs(times: int) -> list[float]:
    """Seconds until a sandbox of a filled pool is in hand."""
    taken = []
    with Pool(IMAGE, size=2) as pool:
        for _ in range(times):
            pool.wait()
            began = time.perf_counter()
            box = pool.take()
            taken.append(time.perf_counter() - began)
            box.close()
    return taken


def transfers() -> tuple[float, float]:
    """Megabytes a second of one large file, into a sandbox and out of it."""
    with tempfile.TemporaryDirectory() as folder, Sandbox(IMAGE) as box:
        source, target = Path(folder, "in"), Path(folder, "out")
        source.write_bytes(os.urandom(MEGABYTES * 10**6))
        began = time.perf_counter()
        box.put(source, "file")
        middle = time.perf_counter()
        box.get("file", target)
        end = time.perf_counter()
    return MEGABYTES / (middle - began), MEGABYTES / (end - middle)
