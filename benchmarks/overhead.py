"""What the harness itself costs: `python -m benchmarks.overhead` runs reference solutions whose model takes its time to reply.

Time that is neither the model's, nor the tools', nor the sandbox's is the harness's; so is the time of a worker between two
attempts.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from benchmarks import runner
from benchmarks.oracle import oracle
from benchmarks.performing import Made, Performing
from benchmarks.plan import Job, Limits, Plan
from benchmarks.store import Store
from codeact.tools.tool import Tool
from codeact.types import Delta, Model, Reply, Request, Retrying


class Slow:
    """A model that takes so many seconds for each reply."""

    def __init__(self, model: Model, seconds: float) -> None:
        self.name, self.sees, self.small = model.name, model.sees, model.small
        self._model, self._seconds = model, seconds

    def __call__(self, request: Request) -> Iterator[Delta | Retrying | Reply]:
        time.sleep(self._seconds)
        yield from self._model(request)


class Timed:
    """Attempts, and how long each worker did something else between two of them."""

    def __init__(self, performing: Performing) -> None:
        self._performing = performing
        self._ended: dict[int, float] = {}
        self.between = 0.0

    def __call__(self, job: Job) -> Made:
        worker = threading.get_ident()
        self.between += time.monotonic() - self._ended.get(worker, time.monotonic())
        try:
            return self._performing(job)
        finally:
            self._ended[worker] = time.monotonic()

    def interrupt(self) -> None:
        self._performing.interrupt()


@click.command(help=__doc__)
@click.option("-j", "--jobs", default=4, show_default=True)
@click.option("--seconds", default=1.0, show_default=True, help="of one reply")
@click.option("--arms", default="code,json", show_default=True)
@click.option("--tasks", default=12, show_default=True)
def main(jobs: int, seconds: float, arms: str, tasks: int) -> None:
    names = tuple(arms.split(","))
    plan = Plan("toolworld", "dev", "slow", names, limit=tasks, limits=Limits(turns=1000, tokens=10**9))

    @contextlib.contextmanager
    def model_of(job: Job, tools: Sequence[Tool]) -> Iterator[Model]:
        with oracle(job.task, job.arm, tools) as model:
            yield Slow(model, seconds)

    with tempfile.TemporaryDirectory() as folder, runner.warm_pool(names, jobs) as pool:
        if pool is not None:
            pool.wait()
        store = Store(Path(folder))
        performing = Timed(Performing(plan, model_of, None, pool, Path(folder)))
        began, busy = time.monotonic(), time.process_time()
        outcome = runner.run(plan.jobs("slow"), performing, store, workers=jobs)
        elapsed, busy = time.monotonic() - began, time.process_time() - busy
        made = store.attempts()
    wall = sum(each.wall_s for each in made)
    print(f"{outcome.progress.done} attempts, {jobs} at once, {elapsed:.1f} s, {wall:.1f} s in attempts")
    for arm in names:
        own = [each for each in made if each.arm == arm]
        whole, rest = sum(each.wall_s for each in own), sum(each.overhead_s for each in own)
        print(f"{arm}: the harness took {rest / whole:.1%} of {whole / len(own):.1f} s an attempt")
    print(
        f"all: {sum(each.overhead_s for each in made) / wall:.1%} within attempts; {busy / elapsed:.0%} of a processor"
    )
    print(f"between attempts: {performing.between / wall:.1%}")


if __name__ == "__main__":
    main()
