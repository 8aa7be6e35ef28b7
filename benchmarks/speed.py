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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from benchmarks import peers
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


@dataclass(frozen=True, slots=True)
class Figure:
    """A median with its floor, in `unit`; `aim` is the most that it should be, as a value or as a ratio to the floor."""

    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_is: str = ""
    aim: str = ""


def main_figures(runs: int, cells: int) -> Iterator[Figure]:
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
    yield Figure("close", statistics.median(close_seconds() for _ in range(runs)), "s", aim="≤ 1 s")
    yield Figure("host time a turn", host_seconds_a_turn() * 1000, "ms")


def peer_figures(runs: int) -> Iterator[Figure]:
    """The same two times of a peer, which keeps no variables from one run of code to the next."""
    peer = peers.llm_sandbox(runs, 3 * runs)
    name = peer.name.partition("[")[0]
    yield Figure(f"{name}: cold start", peer.cold_start, "s")
    yield Figure(f"{name}: empty code", peer.empty * 1000, "ms")


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


@contextlib.contextmanager
def plain_kernel() -> Iterator[BlockingKernelClient]:
    manager = KernelManager(kernel_name="python3", transport="ipc")
    with tempfile.TemporaryDirectory() as folder:
        manager.ip = f"{folder}/k"
        manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"])
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def execute(kernel: BlockingKernelClient, code: str) -> None:
    """Runs a cell until the kernel is idle and has replied, as the sandbox does."""
    request = kernel.execute(code, allow_stdin=False)
    while True:
        message = kernel.get_iopub_msg(timeout=120)
        if (
            message["parent_header"].get("msg_id") == request
            and message["content"].get("execution_state") == "idle"
        ):
            break
    while kernel.get_shell_msg(timeout=120)["parent_header"].get("msg_id") != request:
        pass


def interleaved(ours: Callable[[], object], floor: Callable[[], object], times: int) -> tuple[float, float]:
    """Medians of two things done in turn, so that what else the machine does hits both alike."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for does, seconds in zip((ours, floor), taken, strict=True):
            began = time.perf_counter()
            does()
            seconds.append(time.perf_counter() - began)
    return statistics.median(taken[0]), statistics.median(taken[1])


def median_seconds(does: Callable[[], object], times: int) -> float:
    return interleaved(does, lambda: None, times)[0]


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


def row(figure: Figure) -> str:
    text = f"{figure.name:32} {figure.value:9.3g} {figure.unit:5}"
    if figure.floor is not None:
        text += f" {figure.floor:9.3g}  {figure.value / figure.floor:5.2f} ×  ({figure.floor_is})"
    return text + (f"  aim {figure.aim}" if figure.aim else "")


@click.command()
@click.option("--runs", default=7, show_default=True, help="starts that are measured")
@click.option("--cells", default=200, show_default=True, help="empty cells that are measured")
@click.option("--peer", is_flag=True, help="also measure llm-sandbox, installed for this from its package")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a line")
def main(runs: int, cells: int, peer: bool, as_json: bool) -> None:
    """Measure the sandbox on this machine."""
    if not as_json:
        click.echo(f"{'':32} {'median':>9} {'':5} {'floor':>9}  ratio")
    try:
        for figure in main_figures(runs, cells):
            click.echo(json.dumps(asdict(figure)) if as_json else row(figure))
        for figure in peer_figures(runs) if peer else ():
            click.echo(json.dumps(asdict(figure)) if as_json else row(figure))
    except (SandboxError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
