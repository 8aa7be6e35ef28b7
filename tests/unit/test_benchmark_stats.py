"""The statistics of the benchmarks against scipy, statsmodels and tables that were published."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from benchmarks import stats

RNG = np.random.default_rng(7)
DIFFERENCES = np.round(RNG.choice([-1, -1 / 3, 0, 0, 1 / 3, 1], 60, p=[0.05, 0.1, 0.35, 0.2, 0.15, 0.15]), 6)
CLUSTERS = [f"template-{number}" for number in RNG.integers(0, 16, 60)]
CALLS = RNG.lognormal(1.5, 0.8, 60)
SIZES = RNG.choice([3.0, 10, 30, 100], 60)


def sums(*columns: np.ndarray) -> list[np.ndarray]:
    """Sums by cluster, worked out one by one."""
    names = sorted(set(CLUSTERS))
    return [
        np.array([sum(c for c, n in zip(column, CLUSTERS, strict=True) if n == name) for name in names])
        for column in columns
    ]


def close(made: stats.Interval, theirs: scipy_stats.bootstrap, within: float) -> None:
    assert made.low is not None
    assert made.high is not None
    assert abs(made.low - theirs.confidence_interval.low) < within
    assert abs(made.high - theirs.confidence_interval.high) < within


def scipy_bootstrap(columns: list[np.ndarray], statistic: object) -> scipy_stats.bootstrap:
    return scipy_stats.bootstrap(
        columns, statistic, method="BCa", paired=True, n_resamples=40_000, vectorized=True, axis=-1, rng=3
    )


def test_an_interval_of_a_mean_by_task_is_scipys() -> None:
    names = [str(number) for number in range(60)]
    made = stats.mean(DIFFERENCES.tolist(), names, draws=40_000)
    theirs = scipy_bootstrap([DIFFERENCES], lambda x, axis: np.mean(x, axis=axis))
    close(made.interval(), theirs, 0.005)


@pytest.mark.parametrize(
    "thirds", [[1, -1, 1, 1, 0, 0, -2, 1, 3, 1, 3, 2], [-3, 0, -2, 1, 2, 0, -3, -3, 1, -1, -1, -2]]
)
def test_differences_in_thirds_come_out_as_whole_numbers_do(thirds: list[int]) -> None:
    """Both have draws at 0 and at the estimate, which sums of floats would put on one side of it."""
    names = [str(number) for number in range(12)]
    made = stats.difference([value / 3 for value in thirds], names)
    exact = stats.mean(thirds, names)
    assert made.p_value(0.0) == pytest.approx(exact.p_value(0.0), abs=1e-12)
    for edge in ("low", "high"):
        assert getattr(made.interval(), edge) == pytest.approx(getattr(exact.interval(), edge) / 3, abs=1e-9)


def test_an_interval_of_a_mean_by_cluster_is_scipys() -> None:
    made = stats.mean(DIFFERENCES.tolist(), CLUSTERS, draws=40_000)
    theirs = scipy_bootstrap(
        sums(DIFFERENCES, np.ones(60)), lambda s, n, axis: s.sum(axis=axis) / n.sum(axis=axis)
    )
    close(made.interval(), theirs, 0.005)
    by_task = stats.mean(DIFFERENCES.tolist(), [str(number) for number in range(60)]).interval()
    assert made.interval() != by_task


def test_a_ratio_of_geometric_means_is_scipys() -> None:
    ours, theirs = CALLS, CALLS * np.exp(RNG.normal(0.4, 0.6, 60))
    made = stats.ratio(ours.tolist(), theirs.tolist(), CLUSTERS, draws=40_000).interval().map(math.exp)
    assert made.estimate == pytest.approx(scipy_stats.gmean(ours) / scipy_stats.gmean(theirs))
    peer = scipy_bootstrap(
        sums(np.log(ours / theirs), np.ones(60)),
        lambda s, n, axis: np.exp(s.sum(axis=axis) / n.sum(axis=axis)),
    )
    close(made, peer, 0.01)


def test_a_slope_is_that_of_a_regression_with_scipys_interval() -> None:
    tokens = 900 * SIZES**0.7 * CALLS
    made = stats.slope(SIZES.tolist(), tokens.tolist(), CLUSTERS, draws=40_000)
    x, y = np.log(SIZES), np.log(tokens)
    assert made.estimate == pytest.approx(scipy_stats.linregress(x, y).slope)

    def slope(*columns: np.ndarray, axis: int) -> np.ndarray:
        n, sx, sy, sxy, sxx = (column.sum(axis=axis) for column in columns)
        return np.asarray((sxy / n - sx / n * sy / n) / (sxx / n - (sx / n) ** 2))

    peer = scipy_bootstrap(sums(np.ones(60), x, y, x * y, x * x), slope)
    close(made.interval(), peer, 0.02)


def test_a_p_value_is_the_level_at_which_the_interval_leaves_the_null_out() -> None:
    made = stats.mean(DIFFERENCES.tolist(), CLUSTERS)
    for null in (0.0, -0.05, 0.02):
        p_value = made.p_value(null)
        interval = made.interval(1 - p_value)
        assert interval.low is not None
        assert interval.low == pytest.approx(null, abs=0.003)
    assert made.p_value(-0.05, "greater") < made.p_value(0.0, "greater")
    assert made.p_value(0.0, "greater") == pytest.approx(made.p_value(0.0) / 2)


def test_what_does_not_vary_has_an_interval_without_width() -> None:
    same = stats.mean([0.5] * 8, [str(number) for number in range(8)])
    assert same.interval() == stats.Interval(0.5, 0.5, 0.5)
    assert same.p_value(0.5) == 1.0
    assert same.p_value(0.0) == scipy_stats.binomtest(8, 8).pvalue  # eight signs that agree
    thirds = stats.ratio([3.0] * 20, [1.0] * 20, [str(number) for number in range(20)])
    assert thirds.interval().low == thirds.interval().high == pytest.approx(math.log(3))


def test_one_cluster_has_no_interval() -> None:
    one = stats.mean([0.0, 1.0], ["a", "a"])
    assert one.interval() == stats.Interval(0.5)
    assert one.p_value(0.0) == 1.0


def test_the_same_data_give_the_same_interval() -> None:
    first, second = (stats.mean(DIFFERENCES.tolist(), CLUSTERS).interval() for _ in range(2))
    assert first == second


STATSMODELS = {
    (10, 3): 0.092285156250,
    (25, 11): 0.028816719656,
    (0, 6): 0.03125,
    (4, 4): 1.0,
    (1, 0): 1.0,
    (60, 31): 0.003112689848,
}
"""`mcnemar([[0, b], [c, 0]], exact=True).pvalue` of statsmodels 0.15.0."""


@pytest.mark.parametrize(("pairs", "p_value"), STATSMODELS.items())
def test_mcnemars_test_is_that_of_statsmodels_and_scipys_binomial(
    pairs: tuple[int, int], p_value: float
) -> None:
    assert stats.mcnemar(*pairs) == pytest.approx(p_value, abs=1e-11)
    assert stats.mcnemar(*pairs) == pytest.approx(scipy_stats.binomtest(pairs[0], sum(pairs)).pvalue)


def test_no_discordant_pair_tells_nothing() -> None:
    assert stats.mcnemar(0, 0) == 1.0


@pytest.mark.parametrize(("successes", "tasks"), [(0, 12), (12, 12), (7, 12), (100, 128)])
def test_wilsons_interval_is_scipys(successes: int, tasks: int) -> None:
    made = stats.wilson(successes, tasks)
    theirs = scipy_stats.binomtest(successes, tasks).proportion_ci(method="wilson")
    assert made.low == pytest.approx(theirs.low)
    assert made.high == pytest.approx(theirs.high)


def test_pass_all_counts_the_ways_to_draw_k_attempts() -> None:
    # 3 of 4 right: of the 6 pairs, 3 are both right; 4 of 4: all; 1 of 4: none. One attempt alone is not counted.
    attempts = [[True, True, True, False], [True] * 4, [True, False, False, False], [True]]
    assert stats.pass_all(attempts, 2) == pytest.approx((0.5 + 1 + 0) / 3)
    assert stats.pass_all(attempts, 1) == pytest.approx((0.75 + 1 + 0.25 + 1) / 4)
    assert math.isnan(stats.pass_all([[True]], 3))


def test_holms_procedure() -> None:
    # Holm (1979) by hand: 0.01 × 3, then 0.02 × 2, then max(0.04 × 1, the one before)
    assert stats.holm({"a": 0.04, "b": 0.01, "c": 0.02}) == pytest.approx({"a": 0.04, "b": 0.03, "c": 0.04})
    assert stats.holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize(
    ("tasks", "difference", "share"),
    [(40, 0.20, 0.66), (82, 0.15, 0.83), (100, 0.10, 0.53), (200, 0.08, 0.68), (257, 0.10, 0.95)],
)
def test_power_is_what_a_simulation_finds(tasks: int, difference: float, share: float) -> None:
    assert stats.power(tasks, difference) == pytest.approx(share, abs=0.02)


def test_128_tasks_find_12_points() -> None:
    assert stats.detectable(128) == 0.12
    assert stats.detectable(3) is None
