"""Makes the attempts of a plan, several at once, and stores each."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from benchmarks import arms
from benchmarks.attempts import Attempt
from benchmarks.performing import Made, Performer, Unusable, broken
from benchmarks.plan import Job
from benchmarks.store import Store
from codeact.errors import CodeActError
from sandbox import Pool

TRIES = 3
"""Of an attempt that the infrastructure failed, in one run of the command."""
IN_A_ROW = 8
"""Attempts that the infrastructure failed one after the other, after which no more are begun."""
WARM = 4
"""Sandboxes that wait, at most."""


class Unwritten(CodeActError):
    """The disk does not take what was made."""


@dataclass
class Progress:
    """What has been done so far of what there is to do."""

    total: int
    done: int = 0
    right: int = 0
    failed: int = 0
    cost: float = 0.0
    cost_known: bool = True
    busy: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float | None:
        """Seconds until all is done, at the pace so far."""
        if not self.done:
            return None
        return (time.monotonic() - self.began) / self.done * (self.total - self.done)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the command ended. `open` are attempts without a verdict."""

    progress: Progress
    open: int
    cost_reached: bool = False
    interrupted: bool = False
    gave_up: str = ""
    seconds: float = 0.0


def run(
    jobs: Sequence[Job],
    performer: Performer,
    store: Store,
    *,
    workers: int,
    cost_limit: float | None = None,
    spent: float = 0.0,
    on_done: Callable[[Attempt, Progress], None] = lambda made, progress: None,
) -> Outcome:
    """Makes attempts, in their order, and stores each. Once `cost_limit` (USD, with what was `spent` before) is reached, no more
    are begun. What goes wrong within one attempt ends no more than that one. Raises Unusable, and Unwritten where the disk does
    not take an attempt; what was under way is stored before, as far as that goes."""
    queue, lock = deque((job, 1) for job in jobs), threading.Lock()
    progress = Progress(len(jobs), cost=spent)
    state = _State()

    def next_job() -> tuple[Job, int] | None:
        with lock:
            if state.stopped or not queue:
                return None
            if cost_limit is not None and progress.cost >= cost_limit:
                state.cost_reached = True
                return None
            return queue.popleft()

    def work() -> None:
        while (taken := next_job()) is not None:
            job, tried = taken
            try:
                made = performer(job)
            except Unusable as error:
                state.end(error)
                return
            except BaseException as error:  # noqa: BLE001 - SystemExit too: nothing that an attempt meets ends the others
                made = broken(job, error)
            with lock:
                if made.attempt.stop_reason == "interrupted":
                    return
                try:
                    made = _stored(store, job, made)
                except OSError as error:
                    state.end(_unwritten(store, error))
                    return
                if state.count(made.attempt, progress) and tried < TRIES:
                    queue.append((job, tried + 1))
                on_done(made.attempt, progress)

    interrupted = False
    with ThreadPoolExecutor(workers, thread_name_prefix="attempt") as pool:
        futures = [pool.submit(work) for _ in range(min(workers, len(jobs)))]
        try:
            for future in futures:
                future.result()
        except KeyboardInterrupt:
            interrupted = state.stopped = True
            performer.interrupt()
            performer.interrupt()
    if state.ended is not None:
        raise state.ended
    seconds = time.monotonic() - progress.began
    return Outcome(
        progress, progress.total - progress.done, state.cost_reached, interrupted, state.gave_up, seconds
    )


def _stored(store: Store, job: Job, made: Made) -> Made:
    """What was written of an attempt: that it could not be, where it holds what cannot. Raises OSError."""
    try:
        store.append(made.attempt, made.trace)
    except (ValueError, TypeError, RecursionError) as error:
        made = broken(job, error)
        store.append(made.attempt, made.trace)
    return made


def _unwritten(store: Store, error: OSError) -> Unwritten:
    return Unwritten(
        f"{store.folder}: cannot be written: {error.strerror or error}; mend that, and the same command carries on"
    )


@dataclass
class _State:
    stopped: bool = False
    cost_reached: bool = False
    gave_up: str = ""
    in_a_row: int = 0
    ended: CodeActError | None = None

    def end(self, error: CodeActError) -> None:
        """No more attempts are begun."""
        self.ended = self.ended or error
        self.stopped = True

    def count(self, made: Attempt, progress: Progress) -> bool:
        """Counts an attempt; whether the infrastructure failed it."""
        progress.cost += made.cost_usd or 0.0
        progress.cost_known &= made.cost_usd is not None or not made.scored
        progress.busy += made.wall_s
        if made.scored:
            self.in_a_row = 0
            progress.done += 1
            progress.right += bool(made.success)
            return False
        progress.failed += 1
        self.in_a_row += 1
        if self.in_a_row >= IN_A_ROW:
            self.stopped = True
            self.gave_up = made.error or "the infrastructure failed"
        return True


@contextlib.contextmanager
def warm_pool(names: Sequence[str], workers: int) -> Iterator[Pool | None]:
    """Sandboxes that are started before they are wanted, where an arm runs code."""
    from codeact.workspace import warm

    if not any(name in arms.ARMS and arms.ARMS[name].runs_code for name in names):
        yield None
        return
    with Pool(arms.IMAGE, size=min(workers, WARM), prepare=warm) as pool:
        yield pool
