"""From attempts to figures: which attempts count, and figures that were worked out by hand."""

from __future__ import annotations

import pytest
from scipy import stats as scipy_stats

from benchmarks.analysis import analyse
from benchmarks.attempts import Attempt
from benchmarks.report.plots import plots


def attempt(task: str, arm: str, success: bool | None, *, repeat: int = 1, calls: int = 2, tokens: int = 1000, **changes: object) -> Attempt:  # fmt: skip
    known: dict[str, object] = {
        "template": task,
        "category": task[0],
        "stop_reason": "submitted",
        "wall_s": 2.0,
    }
    known |= changes
    return Attempt(key=f"{task}{arm}{repeat}", task=task, arm=arm, repeat=repeat, success=success, llm_calls=calls, prompt_tokens=tokens, **known)  # type: ignore[arg-type] # fmt: skip


def grid(outcomes: dict[str, tuple[bool, bool]]) -> list[Attempt]:
    """Attempts of two arms: code, then json."""
    return [
        attempt(task, arm, success, calls=2 if arm == "code" else 5, tokens=1000 if arm == "code" else 3000)
        for task, both in outcomes.items()
        for arm, success in zip(("code", "json"), both, strict=True)
    ]


OUTCOMES = {f"A{n}": (True, n % 3 == 0) for n in range(9)} | {f"B{n}": (n > 0, True) for n in range(5)}


def test_a_repeat_without_a_verdict_in_one_arm_counts_in_none_and_is_listed() -> None:
    attempts = [
        attempt("A1", "code", True), attempt("A1", "json", None),
        attempt("A1", "code", True, repeat=2), attempt("A1", "json", False, repeat=2),
        attempt("A2", "code", False),
    ]  # fmt: skip
    found = analyse(attempts)
    assert found.dropped == (("A1", 1), ("A2", 1))
    assert [(made.task, made.arm, made.repeat) for made in found.kept] == [
        ("A1", "code", 2),
        ("A1", "json", 2),
    ]
    assert [each.attempts for each in found.figures] == [1, 1]


def test_differences_and_tests_of_a_pair() -> None:
    (pair,) = analyse(grid(OUTCOMES)).pairings
    assert (pair.ours, pair.theirs, pair.tasks, pair.clusters) == ("code", "json", 14, 14)
    assert pair.difference.estimate == pytest.approx((6 - 1) / 14)
    assert (pair.only_ours, pair.only_theirs) == (6, 1)
    assert pair.mcnemar == pytest.approx(scipy_stats.binomtest(6, 7).pvalue)
    by_category = {each.category: each.difference.estimate for each in pair.categories}
    assert by_category == {"A": pytest.approx(6 / 9), "B": pytest.approx(-1 / 5)}


def test_ratios_over_all_tasks_and_over_those_that_both_solve() -> None:
    (pair,) = analyse(grid(OUTCOMES)).pairings
    calls = next(each for each in pair.ratios if each.measure == "model calls")
    assert calls.all is not None
    assert calls.all.estimate == pytest.approx(0.4)
    assert calls.tasks == (14, 3 + 4)
    usd = next(each for each in pair.ratios if each.measure == "USD")
    assert usd.all is None


def test_a_ratio_is_one_of_geometric_means() -> None:
    ours, theirs = [2, 3, 8, 1], [4, 4, 4, 9]
    attempts = [
        attempt(f"A{n}", arm, True, calls=value)
        for arm, values in (("code", ours), ("json", theirs))
        for n, value in enumerate(values)
    ]
    (pair,) = analyse(attempts).pairings
    made = next(each for each in pair.ratios if each.measure == "model calls").all
    assert made is not None
    assert made.estimate == pytest.approx(scipy_stats.gmean(ours) / scipy_stats.gmean(theirs))


def test_hypotheses_hold_only_on_the_right_side() -> None:
    (pair,) = analyse(grid({f"A{n}": (True, True) for n in range(100)})).pairings
    assert {each.name: each.holds for each in pair.hypotheses} == {"H1": True, "H2": True, "H3": True}
    worse = [
        attempt(f"A{n}", arm, True, calls=9 if arm == "code" else 2, tokens=9000 if arm == "code" else 200)
        for n in range(100)
        for arm in ("code", "json")
    ]
    (pair,) = analyse(worse).pairings
    assert {each.name: each.holds for each in pair.hypotheses} == {"H1": True, "H2": False, "H3": False}
    assert all(each.p_value >= each.raw for each in pair.hypotheses)


def test_tokens_against_size() -> None:
    attempts = [
        attempt(f"C{size}-{n}", arm, True, tokens=size**power * 10, size=size, template=f"t{n}")
        for arm, power in (("code", 1), ("json", 2))
        for size in (3, 10, 30, 100)
        for n in range(3)
    ]
    slopes = analyse(attempts).slopes
    assert {arm: round(slope.estimate, 6) for arm, slope in slopes.items()} == {"code": 1.0, "json": 2.0}


def test_tasks_that_differ_in_more_than_their_size_say_nothing_of_growth() -> None:
    sizes = {"shop": 3, "desk": 10, "ledger": 30, "ops": 100}
    found = analyse(
        [
            attempt(f"{template}-1", arm, True, tokens=10_000 // size, size=size, template=template)
            for template, size in sizes.items()
            for arm in ("code", "json")
        ]
    )
    assert found.slopes == {}
    assert next(plot for plot in plots(found) if plot.name == "growth").rows == ()


def test_all_means_are_over_tasks_when_one_has_fewer_repeats() -> None:
    """A has one repeat, right, of 1 call; B three, wrong, of 5 calls."""
    found = analyse(
        [attempt("A", "code", True, calls=1, answer_ok=True)]
        + [attempt("B", "code", False, repeat=n, calls=5, answer_ok=False) for n in (1, 2, 3)]
    )
    (code,) = found.figures
    assert code.success.estimate == code.answer_ok == 0.5
    assert code.means["model calls"] == 3.0
    assert code.calls_per_success == 16.0


def test_an_attempt_that_is_right_at_a_limit_is_counted_once() -> None:
    ends = (("A", True, "turn_limit"), ("B", False, "time_limit"), ("C", False, "submitted"))
    found = analyse([attempt(task, "code", right, stop_reason=stop) for task, right, stop in ends])
    rows = next(plot for plot in plots(found) if plot.name == "stops").rows
    assert {(name, count) for _, name, count, _ in rows} == {
        ("right answer", 1),
        ("wrong answer", 1),
        ("time limit", 1),
    }


def test_success_is_by_task_and_pass_k_wants_all_repeats() -> None:
    attempts = [
        attempt(task, "code", success, repeat=repeat)
        for task, outcomes in (("A1", (True, True, False)), ("A2", (True, True, True)))
        for repeat, success in enumerate(outcomes, 1)
    ]
    found = analyse(attempts)
    (figures,) = found.figures
    assert found.k == 3
    assert figures.success.estimate == pytest.approx((2 / 3 + 1) / 2)
    assert figures.pass_k == 0.5
    assert found.pairings == ()


def test_nothing_is_no_fault() -> None:
    assert analyse([]).figures == ()
    assert analyse([attempt("A1", "code", None)]).kept == ()
