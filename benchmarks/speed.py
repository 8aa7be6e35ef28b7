"""How fast the sandbox is, each figure beside its floor, measured in the same run: `python -m benchmarks.speed`.

The floor of a start is the engine's own: a container that does nothing. The floor of a cell is the same cell on a plain
kernel of this machine, over the same messages. Figures are medians; they vary with what else the machine does.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks import peers, starts
from benchmarks.measuring import Figure, interleaved, median_seconds, row
from benchmarks.plain import execute, plain_kernel
from codeact.agent import Agent
from codeact.events import Observed
from codeact.models import ScriptedModel
from codeact.types import RunLimits
from sandbox import Limits, Sandbox, SandboxError
from sandbox.engine import find_engine
from sandbox.images import find

TURNS = 30
MEGABYTES = 64
FLOOD = f"line = 'x' * 999\nfor _ in range({MEGABYTES} * 1000): print(line)"


def main_figures(runs: int, cells: int, alive: int) -> Iterator[Figure]:
    yield Figure(
        "cold start to a cell's result",
        median_seconds(cold_start, runs),
        "s",
        median_seconds(container_alone, runs),
        "an empty container of the same image",
        "≤ 1.2 s",
    )
    with plain_kernel() as kernel, Sandbox(limits=Limits(output="200m"), timeout=120) as box:
        ours, plain = interleaved(lambda: box.run(""), lambda: execute(kernel, ""), cells)
        yield Figure("empty cell", ours * 1000, "ms", plain * 1000, "a plain kernel", "≤ 1.15 ×")
        yield Figure("memory of an idle sandbox", box.memory() / 2**20, "MiB")
        ours, plain = interleaved(lambda: box.run(FLOOD), lambda: execute(kernel, FLOOD), 1)
        yield Figure("output", MEGABYTES / ours, "MB/s", MEGABYTES / plain, "a plain kernel")
    yield from starts.figures(runs, alive)
    yield Figure("close", statistics.median(close_seconds() for _ in range(runs)), "s", aim="≤ 1 s")
    yield Figure("host time a turn", host_seconds_a_turn() * 1000, "ms")


def peer_figures(runs: int) -> Iterator[Figure]:
    """The same two times of peers, as they come."""
    for measure in (peers.llm_sandbox, peers.ipybox):
        try:
            peer = measure(runs, 3 * runs)
        except RuntimeError as error:
            click.echo(f"{measure.__name__} was not measured: {error}", err=True)
            continue
        yield Figure(f"{peer.name}: cold start", peer.cold_start, "s")
        yield Figure(f"{peer.name}: empty code", peer.empty * 1000, "ms")


def cold_start() -> None:
    with Sandbox() as box:
        assert box.run("6 * 7").result == "42"


def close_seconds() -> float:
    box = Sandbox()
    box.start()
    began = time.perf_counter()
    box.close()
    return time.perf_counter() - began


def container_alone() -> None:
    with contextlib.closing(find_engine().client()) as client:
        container = client.api.create_container(find(client, "data").tag, ["true"])
        client.api.start(container)
        client.api.wait(container)
        client.api.remove_container(container)


def host_seconds_a_turn() -> float:
    """What a turn costs beside the model's time and the cell's."""
    replies = [f"Turn {n}.\n```python\nx = {n}\n```" for n in range(TURNS)]
    replies.append("```python\nfinal_answer(x)\n```")
    with tempfile.TemporaryDirectory() as folder:
        events = list(
            Agent(ScriptedModel(replies), limits=RunLimits(turns=None), runs=Path(folder)).stream("Count.")
        )
    began = next(event.time for event in events if event.type == "turn_started")
    in_cells = sum(event.cell.seconds for event in events if isinstance(event, Observed) and event.cell)
    in_model = sum(event.seconds for event in events if event.type == "replied")  # type: ignore[attr-defined]
    return (events[-1].time - began - in_cells - in_model) / (TURNS + 1)


@click.command()
@click.option("--runs", default=7, show_default=True, help="starts that are measured")
@click.option("--cells", default=200, show_default=True, help="empty cells that are measured")
@click.option("--alive", default=20, show_default=True, help="sandboxes that are alive at once, at most")
@click.option(
    "--peer", is_flag=True, help="also measure llm-sandbox and ipybox, installed for this from their packages"
)
@click.option("--json", "as_json", is_flag=True, help="one JSON object a line")
def main(runs: int, cells: int, alive: int, peer: bool, as_json: bool) -> None:
    """Measure the sandbox on this machine."""
    if not as_json:
        click.echo(f"{'':32} {'median':>9} {'':5} {'floor':>9}  ratio")
    try:
        for figure in main_figures(runs, cells, alive):
            click.echo(json.dumps(asdict(figure)) if as_json else row(figure))
        for figure in peer_figures(runs) if peer else ():
            click.echo(json.dumps(asdict(figure)) if as_json else row(figure))
    except (SandboxError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
