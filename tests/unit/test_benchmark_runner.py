"""Many attempts: their order, what ends a run early, and what is tried again."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import runner
from benchmarks.attempts import Attempt
from benchmarks.performing import Made, Unusable
from benchmarks.plan import Job, Plan
from benchmarks.runner import Unwritten
from benchmarks.store import Store

PLAN = Plan("small-tasks", "test", "m", ("code",), repeats=2)


class Performs:
    """Makes attempts as `outcome` says of each job and of how often it was tried."""

    def __init__(self, outcome: Callable[[Job, int], Attempt]) -> None:
        self.tried: list[str] = []
        self._outcome = outcome
        self.interrupts = 0

    def __call__(self, job: Job) -> Made:
        self.tried.append(job.key)
        return Made(self._outcome(job, self.tried.count(job.key)), [])

    def interrupt(self) -> None:
        self.interrupts += 1


def attempt(job: Job, success: bool | None, cost: float = 0.0) -> Attempt:
    stop = "infra_error" if success is None else "submitted"
    return Attempt(key=job.key, task=job.task.id, arm=job.arm, repeat=job.repeat, success=success, cost_usd=cost, stop_reason=stop)  # type: ignore[arg-type] # fmt: skip


def play(
    performs: Performs, folder: Path, jobs: Iterable[Job] | None = None, **settings: float
) -> runner.Outcome:
    chosen = list(PLAN.jobs("m") if jobs is None else jobs)
    return runner.run(chosen, performs, Store(folder), workers=2, **settings)  # type: ignore[arg-type]


def test_the_seed_decides_the_order_and_mixes_repeats() -> None:
    first, again = ([job.key for job in PLAN.jobs("m")] for _ in range(2))
    other = [job.key for job in Plan("small-tasks", "test", "m", ("code",), repeats=2, seed=1).jobs("m")]
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)
    assert len(set(first)) == 24
    repeats = [job.repeat for job in PLAN.jobs("m")]
    assert repeats != sorted(repeats)


def test_every_attempt_is_stored(tmp_path: Path) -> None:
    outcome = play(Performs(lambda job, tried: attempt(job, job.repeat == 1)), tmp_path)
    assert (outcome.open, outcome.progress.done, outcome.progress.right) == (0, 24, 12)
    assert len(Store(tmp_path).attempts()) == 24


def test_what_the_infrastructure_failed_is_tried_again_and_counted(tmp_path: Path) -> None:
    bad = PLAN.jobs("m")[3].key
    performs = Performs(lambda job, tried: attempt(job, None if job.key == bad and tried < 3 else True))
    outcome = play(performs, tmp_path)
    assert outcome.open == 0
    assert performs.tried.count(bad) == 3
    assert [made.infra_failures for made in Store(tmp_path).attempts() if made.key == bad] == [2]


def test_what_fails_each_time_is_left_open(tmp_path: Path) -> None:
    bad = PLAN.jobs("m")[0].key
    performs = Performs(lambda job, tried: attempt(job, None if job.key == bad else True))
    outcome = play(performs, tmp_path)
    assert (outcome.open, performs.tried.count(bad), outcome.gave_up) == (1, runner.TRIES, "")


def test_an_endpoint_that_is_down_is_not_asked_for_ever(tmp_path: Path) -> None:
    performs = Performs(lambda job, tried: attempt(job, None))
    outcome = play(performs, tmp_path)
    assert outcome.gave_up
    assert outcome.open == 24
    assert len(performs.tried) <= runner.IN_A_ROW + 1  # one more may have been under way


def test_the_cost_limit_lets_what_runs_end_and_begins_no_more(tmp_path: Path) -> None:
    performs = Performs(lambda job, tried: attempt(job, True, cost=1.0))
    outcome = play(performs, tmp_path, cost_limit=5.0, spent=2.0)
    assert outcome.cost_reached
    assert 3 <= outcome.progress.done <= 4
    assert len(Store(tmp_path).attempts()) == outcome.progress.done
    assert outcome.open == 24 - outcome.progress.done


def test_a_limit_that_was_spent_before_begins_nothing(tmp_path: Path) -> None:
    performs = Performs(lambda job, tried: attempt(job, True))
    assert play(performs, tmp_path, cost_limit=2.0, spent=2.0).cost_reached
    assert performs.tried == []


def test_a_model_that_cannot_be_asked_ends_the_run(tmp_path: Path) -> None:
    def refuse(job: Job, tried: int) -> Attempt:
        raise Unusable("the key was refused")

    performs = Performs(refuse)
    with pytest.raises(Unusable, match="the key was refused"):
        play(performs, tmp_path)
    assert len(performs.tried) <= 2


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), SystemExit("oops"), KeyboardInterrupt("oops")])
def test_a_fault_of_the_harness_ends_its_attempt_and_no_other(tmp_path: Path, error: BaseException) -> None:
    bad = PLAN.jobs("m")[4]

    def outcome(job: Job, tried: int) -> Attempt:
        if job.key == bad.key:
            raise error
        return attempt(job, True)

    done = play(Performs(outcome), tmp_path)
    assert (done.open, done.progress.done, done.interrupted, done.gave_up) == (1, 23, False, "")
    (left,) = [made for made in Store(tmp_path).attempts() if not made.scored]
    assert (left.task, left.arm, left.repeat, left.model) == (bad.task.id, bad.arm, bad.repeat, "m")
    assert (left.stop_reason, left.infra_failures) == ("infra_error", runner.TRIES)
    assert left.error == f"the harness failed: {type(error).__name__}: oops"
    assert "in outcome" in Store(tmp_path).read_trace(bad.key)[0]["traceback"]


def test_what_cannot_be_written_of_an_attempt_is_a_fault_of_that_one(tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    bad = PLAN.jobs("m")[2].key
    performs = Performs(lambda job, tried: replace(attempt(job, True), answer=deep if job.key == bad else 1))
    done = play(performs, tmp_path)
    assert (done.open, done.progress.done) == (1, 23)
    (left,) = [made for made in Store(tmp_path).attempts() if not made.scored]
    assert left.key == bad
    assert "RecursionError" in str(left.error)


def test_a_full_disk_ends_the_run_and_leaves_no_half_of_an_attempt(tmp_path: Path) -> None:
    performs = Performs(lambda job, tried: replace(attempt(job, True), answer="x" * 3000))
    play(performs, tmp_path, PLAN.jobs("m")[:2])
    before, limits = len(performs.tried), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(Unwritten, match=r"cannot be written: File too large; .* the same command"):
            play(performs, tmp_path, PLAN.jobs("m")[2:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "attempts.jsonl").read_text().endswith("}\n")
    assert len(performs.tried) - before <= 1 + 2  # one fits; each of two workers was told no
    assert len(Store(tmp_path).attempts()) == 2
    done = {made.key for made in Store(tmp_path).attempts()}
    play(performs, tmp_path, [job for job in PLAN.jobs("m") if job.key not in done])
    assert len(Store(tmp_path).attempts()) == 24


def test_attempts_run_at_once(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=60)

    def outcome(job: Job, tried: int) -> Attempt:
        both.wait()
        return attempt(job, True)

    assert play(Performs(outcome), tmp_path).progress.done == 24
