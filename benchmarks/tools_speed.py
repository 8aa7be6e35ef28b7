"""What calls of tools cost, each beside its floor: `python -m benchmarks.tools_speed`.

Times are taken inside the sandbox, in a run's own setting: generated modules, checks, events and values included. The
floor of a call is a round trip of a JSON value to a function that does nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from benchmarks import peers
from benchmarks.measuring import Figure, row
from codeact import workspace
from codeact.tools import crossing, prompt, stubs
from codeact.tools.approval import Approval
from codeact.tools.functions import tool
from codeact.tools.load import tools_from
from codeact.tools.runner import Setup, ToolRunner
from codeact.tools.tool import Tool
from sandbox import Limits, Sandbox, SandboxError
from sandbox.hostcalls import HostFunction, WithCall

CALLS = 1000
MEGABYTES = 100
TIMED = """
import time, statistics
def timed(does, times):
    taken = []
    for _ in range(times):
        began = time.perf_counter(); does(); taken.append(time.perf_counter() - began)
    return statistics.median(taken)
"""


@tool(effects="read")
def trivial(number: int) -> int:
    """Gives back a number."""
    return number


@tool(effects="read")
def wait(milliseconds: int) -> None:
    """Waits."""
    time.sleep(milliseconds / 1000)


@tool(effects="read")
def rows(table: Any) -> int:
    """How many rows a table has."""
    return len(table)


def table(megabytes: int) -> Any:
    """A table of so many megabytes: numbers and texts."""
    import numpy as np
    import pandas as pd

    count = megabytes * 1_000_000 // 40
    made = pd.DataFrame({name: np.arange(count) * 1.5 for name in "abc"})
    made["text"] = pd.array(["eight ch"] * count, dtype="string[pyarrow]")
    return made


@contextlib.contextmanager
def box_with(functions: list[Any]) -> Iterator[Sandbox]:
    tools = tools_from(functions)
    setup = Setup(tuple(tools), Approval("never"))
    encoder = crossing.Encoder(lambda file, inside: box.put(file, inside))
    runner = ToolRunner(setup, run="bench", emit=lambda event: event, encode=encoder)
    runner.begin(1)
    calls: dict[str, HostFunction | WithCall] = {
        crossing.FUNCTION: crossing.function(runner.call),
        "echo": lambda value: value,
    }
    with Sandbox(functions=calls, limits=Limits(memory="2g"), timeout=120) as box:
        workspace.prepare(box, [], stubs.modules(tools))
        yield box
    runner.close()


def inside(box: Sandbox, code: str) -> Any:
    """What the last line of the code is, as JSON."""
    lines = f"{TIMED}{code}".splitlines()
    cell = box.run("\n".join([*lines[:-1], "import json", f"print(json.dumps({lines[-1]}))"]))
    if cell.status != "ok":
        raise RuntimeError(f"the bench's own code failed: {cell.error}")
    return json.loads(cell.stdout)


def call_figures(box: Sandbox) -> Iterator[Figure]:
    ours, floor = inside(
        box,
        "from tools import trivial\nfrom sandbox_guest.host import call\n"
        f"trivial(1)\n[timed(lambda: trivial(1), {CALLS}), timed(lambda: call('echo', 1), {CALLS})]",
    )
    trip = "a bare round trip"
    yield Figure("trivial call", ours * 1000, "ms", floor * 1000, trip, "≤ 0.5 ms, ≤ 3 ×")
    together = inside(
        box,
        "from tools import wait\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(32)\nlist(pool.map(wait, [1] * 32))\n"
        "timed(lambda: list(pool.map(wait, [50] * 32)), 5)",
    )
    yield Figure("32 calls of 50 ms at once", together * 1000, "ms", 50.0, "one such call", "≤ 120 ms")


def table_figures(box: Sandbox, made: Any) -> Iterator[Figure]:
    size = made.memory_usage(deep=True).sum() / 1e6
    with peak_memory() as peak:
        seconds = inside(
            box,
            "from tools import give\nbegan = time.perf_counter(); table = give()\ntime.perf_counter() - began",
        )
    yield Figure(f"{size:.0f} MB table, host to sandbox", seconds, "s", aim="≤ 1.5 s")
    yield Figure("host memory meanwhile", peak[0] / size, "× its size", aim="≤ 2.5 ×")
    with peak_memory() as peak:
        seconds = inside(
            box,
            "from tools import rows\nbegan = time.perf_counter(); rows(table)\ntime.perf_counter() - began",
        )
    yield Figure(f"{size:.0f} MB table, sandbox to host", seconds, "s", aim="≤ 1.5 s")
    yield Figure("host memory meanwhile", peak[0] / size, "× its size", aim="≤ 2.5 ×")


@contextlib.contextmanager
def peak_memory() -> Iterator[list[float]]:
    """The most megabytes that this process holds in the block beyond what it held before."""
    peak, ended, before = [0.0], threading.Event(), resident()

    def watch() -> None:
        while not ended.wait(0.005):
            peak[0] = max(peak[0], resident() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def many(count: int) -> list[Tool]:
    """Tools such as people have: a sentence, three parameters, ten in a namespace."""
    made = []
    for number in range(count):

        def look_up(order_id: str, *, details: bool = False, limit: int = 10) -> dict[str, str]:
            """Looks up the orders of a customer with their state and sum."""
            return {}

        marked = tool(effects="read", name=f"look_up_{number}", namespace=f"shop_{number // 10}")(look_up)
        made += tools_from([marked])
    return made


def prompt_figures() -> Iterator[Figure]:
    for count in (5, 20, 50, 500):
        tokens = len(prompt.describe(many(count))) / prompt.CHARACTERS_PER_TOKEN
        yield Figure(f"prompt of {count} tools", tokens, "tokens")


def peer_figures() -> Iterator[Figure]:
    seconds = peers.ipybox_calls(CALLS)
    yield Figure(f"{peers.IPYBOX[0]}: trivial call", seconds * 1000, "ms")


def figures() -> Iterator[Figure]:
    made = table(MEGABYTES)

    @tool(effects="read")
    def give() -> Any:
        """A table."""
        return made

    with box_with([trivial, wait, rows, give]) as box:
        yield from call_figures(box)
        yield from table_figures(box, made)
    yield from prompt_figures()


@click.command()
@click.option("--peer", is_flag=True, help="also measure ipybox, installed for this from its package")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a line")
def main(peer: bool, as_json: bool) -> None:
    """Measure calls of tools on this machine."""
    try:
        for figure in itertools.chain(figures(), peer_figures() if peer else ()):
            click.echo(json.dumps(asdict(figure)) if as_json else row(figure))
    except (SandboxError, RuntimeError, ImportError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
