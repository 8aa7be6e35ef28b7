"""The statistics of a comparison. The unit is a task; tasks of one template are a cluster, since they share their faults.

Intervals are bias-corrected and accelerated (BCa) bootstrap intervals over clusters (Efron, "Better bootstrap confidence
intervals", 1987), with p values that are their inverse: the smallest level at which the interval leaves the null out.

A bootstrap knows nothing but what was seen, and of few clusters that is little. Two exact bounds stand behind it: no p value is below
that of a sign test in which all clusters agree; and of values with bounds, such as differences of success, what no
cluster has shown may still be as frequent as goes with its not being seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""Sums over clusters, in the last axis, to a number: what is resampled are the sums of each cluster."""

DRAWS = 10_000
SEED = 20_260_101
LEVEL = 0.95
DECIMALS = 12
"""Of what is resampled: sums of thirds differ by 1e-17 where they are equal, and would fall to one side of what they are compared with."""
FEW = 6
"""Clusters, fewer than which cannot show anything at this level: a sign test of five that agree has p = 0.0625."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval; `low` and `high` are None where fewer than two clusters leave nothing to resample."""

    estimate: float
    low: float | None = None
    high: float | None = None

    def map(self, change: Callable[[float], float]) -> Interval:
        """The interval on another scale; `change` must not fall."""
        low, high = (None if each is None else change(each) for each in (self.low, self.high))
        return Interval(change(self.estimate), low, high)


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Draws of a statistic over so many clusters, sorted, with what corrects their percentiles: the bias `z0` and the
    acceleration. `least` is the least that a value can be, where no cluster is below 0; `most` likewise."""

    estimate: float
    draws: Array
    z0: float
    acceleration: float
    clusters: int
    least: float | None = None
    most: float | None = None

    def interval(self, level: float = LEVEL) -> Interval:
        if not len(self.draws):
            return Interval(self.estimate)
        tail = (1 - level) / 2
        low, high = (
            (self.estimate, self.estimate)
            if self._is_constant
            else (self._percentile(tail), self._percentile(1 - tail))
        )
        unseen = 1 - tail ** (1 / self.clusters)
        if self.least is not None:
            low = min(low, self.estimate - unseen * (self.estimate - self.least))
        if self.most is not None:
            high = max(high, self.estimate + unseen * (self.most - self.estimate))
        return Interval(self.estimate, low, high)

    def p_value(self, null: float, side: Literal["two", "greater"] = "two") -> float:
        """How well the data go with `null`: with `greater`, with what is not above it."""
        if not len(self.draws):
            return 1.0
        sides = 1 if side == "greater" else 2
        signs = sides * 0.5**self.clusters
        return min(1.0, max(self._drawn(null, side), signs, sides * self._unseen(null, side)))

    @property
    def _is_constant(self) -> bool:
        return bool(self.draws[0] == self.draws[-1])

    def _unseen(self, null: float, side: str) -> float:
        """How likely it is, if `null` is the truth, that nothing is seen of what makes it less than the estimate, or more."""
        if self.least is not None and self.least <= null < self.estimate:
            return float((1 - (self.estimate - null) / (self.estimate - self.least)) ** self.clusters)
        if side == "two" and self.most is not None and self.estimate < null <= self.most:
            return float((1 - (null - self.estimate) / (self.most - self.estimate)) ** self.clusters)
        return 0.0

    def _drawn(self, null: float, side: str) -> float:
        """By the draws alone."""
        if self._is_constant:
            differs = self.estimate > null if side == "greater" else self.estimate != null
            return 1 / (len(self.draws) + 1) if differs else 1.0
        below = np.mean(self.draws < null) + np.mean(self.draws == null) / 2
        share = float(np.clip(below, 1 / (len(self.draws) + 1), 1 - 1 / (len(self.draws) + 1)))
        moved = _NORMAL.inv_cdf(share) - self.z0
        stretch = 1 + self.acceleration * moved
        under = _NORMAL.cdf(moved / stretch - self.z0) if stretch > 0 else float(moved > 0)
        return under if side == "greater" else min(1.0, 2 * min(under, 1 - under))

    def _percentile(self, tail: float) -> float:
        moved = self.z0 + _NORMAL.inv_cdf(tail)
        share = _NORMAL.cdf(self.z0 + moved / (1 - self.acceleration * moved))
        return float(np.quantile(self.draws, share))


def bootstrap(parts: Array, statistic: Statistic, draws: int = DRAWS, seed: int = SEED) -> Bootstrap:
    """Resamples clusters. `parts` has a row for each sum that `statistic` needs and a column for each cluster."""

    def rounded(sums: Array) -> Array:
        return np.round(statistic(sums), DECIMALS)

    clusters = parts.shape[-1]
    estimate = float(rounded(parts.sum(axis=-1)))
    if clusters < 2:
        return Bootstrap(estimate, np.empty(0), 0.0, 0.0, clusters)
    counts = np.random.default_rng(seed).multinomial(clusters, [1 / clusters] * clusters, size=draws)
    drawn = np.sort(rounded(parts @ counts.T.astype(np.float64)))
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return Bootstrap(estimate, drawn, 0.0, 0.0, clusters)
    share = (np.mean(drawn < estimate) + np.mean(drawn <= estimate)) / 2
    edge = 1 / (len(drawn) + 1)
    z0 = _NORMAL.inv_cdf(float(np.clip(share, edge, 1 - edge)))
    without = rounded(parts.sum(axis=-1)[:, None] - parts)
    return Bootstrap(estimate, drawn, z0, _acceleration(without[np.isfinite(without)]), clusters)


def _acceleration(without: Array) -> float:
    """From the statistic without each cluster in turn."""
    pulls = without.mean() - without
    spread = float((pulls**2).sum())
    return float((pulls**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0


def mean(values: Sequence[float], clusters: Sequence[str], **settings: int) -> Bootstrap:
    """The mean over tasks, resampled by cluster."""
    parts = _sums(clusters, np.asarray(values, dtype=np.float64), np.ones(len(values)))
    return bootstrap(parts, lambda sums: sums[0] / sums[1], **settings)


def difference(values: Sequence[float], clusters: Sequence[str], **settings: int) -> Bootstrap:
    """The mean over tasks of differences of success, each from -1 to 1, resampled by cluster."""
    sums, counts = _sums(clusters, np.asarray(values, dtype=np.float64), np.ones(len(values)))
    means = np.round(sums / counts, DECIMALS)
    return replace(
        mean(values, clusters, **settings),
        least=-1.0 if means.min() >= 0 else None,
        most=1.0 if means.max() <= 0 else None,
    )


def ratio(
    ours: Sequence[float], theirs: Sequence[float], clusters: Sequence[str], **settings: int
) -> Bootstrap:
    """The logarithm of the ratio of geometric means of two paired series of positive numbers; `.map(math.exp)` of its interval
    is the ratio's."""
    logs = np.log(np.asarray(ours, dtype=np.float64)) - np.log(np.asarray(theirs, dtype=np.float64))
    return mean(logs.tolist(), clusters, **settings)


def slope(x: Sequence[float], y: Sequence[float], clusters: Sequence[str], **settings: int) -> Bootstrap:
    """The slope of log y on log x by least squares: 1 where y grows as x does, 0 where it does not grow."""
    log_x, log_y = np.log(np.asarray(x, dtype=np.float64)), np.log(np.asarray(y, dtype=np.float64))
    parts = _sums(clusters, np.ones(len(log_x)), log_x, log_y, log_x * log_y, log_x**2)
    return bootstrap(parts, _least_squares, **settings)


def _least_squares(sums: Array) -> Array:
    n, x, y, xy, xx = sums
    spread = n * xx - x * x
    level = np.abs(spread) < 1e-9 * n * xx  # all drawn at one x
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(level, np.nan, (n * xy - x * y) / spread)


def _sums(clusters: Sequence[str], *columns: Array) -> Array:
    """Sums of each column by cluster, in the order in which the clusters first come."""
    place = {name: index for index, name in enumerate(dict.fromkeys(clusters))}
    where = [place[name] for name in clusters]
    return np.stack([np.bincount(where, column, len(place)) for column in columns])


# -- exact ------------------------------------------------------------------------------------------------------------


def mcnemar(only_ours: int, only_theirs: int) -> float:
    """The exact two-sided p value of McNemar's test, from the pairs of which just one succeeded."""
    discordant, fewer = only_ours + only_theirs, min(only_ours, only_theirs)
    tail = sum(math.comb(discordant, count) for count in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**discordant))


def wilson(successes: float, tasks: int, level: float = LEVEL) -> Interval:
    """Wilson's score interval of a share; `successes` may be a sum of shares."""
    if not tasks:
        return Interval(math.nan)
    z = _NORMAL.inv_cdf((1 + level) / 2)
    share, weight = successes / tasks, 1 + z * z / tasks
    middle = (share + z * z / (2 * tasks)) / weight
    half = z / weight * math.sqrt(share * (1 - share) / tasks + z * z / (4 * tasks * tasks))
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def pass_all(successes: Sequence[Sequence[bool]], k: int) -> float:
    """pass^k: how likely `k` attempts at a task all succeed, over the tasks with at least `k` attempts (tau-bench,
    arXiv 2406.12045, without bias: C(c, k) / C(n, k))."""
    shares = [math.comb(sum(each), k) / math.comb(len(each), k) for each in successes if len(each) >= k]
    return sum(shares) / len(shares) if shares else math.nan


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """The p values of a family, adjusted by Holm's step-down procedure."""
    adjusted: dict[str, float] = {}
    floor = 0.0
    for rank, (name, p_value) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_value))
        adjusted[name] = floor
    return {name: adjusted[name] for name in p_values}


def power(tasks: int, difference: float, level: float = 1 - LEVEL) -> float:
    """How likely an exact McNemar test finds a difference of success (0.1 for 10 points) with as many tasks, where
    max(0.20, difference + 0.06) of the pairs are discordant."""
    discordant = max(0.20, difference + 0.06)
    ours = (discordant + difference) / 2 / discordant
    how_many = _binomial(tasks, discordant)
    found = 0.0
    for pairs in range(tasks + 1):
        tail = 2 * np.cumsum(_binomial(pairs, 0.5))
        below = int(np.searchsorted(tail, level * (1 + 1e-9), side="right"))
        counts = _binomial(pairs, ours)
        found += float(how_many[pairs] * (counts[:below].sum() + counts[pairs + 1 - below :].sum()))
    return found


def detectable(tasks: int, wanted: float = 0.8) -> float | None:
    """The smallest difference of success, in whole points, that as many tasks find with the power that is wanted."""
    low, high = 0, 93  # with more, each pair would be discordant
    if power(tasks, high / 100) < wanted:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(tasks, middle / 100) >= wanted else (middle, high)
    return high / 100


def _binomial(trials: int, share: float) -> Array:
    """The probabilities of 0 to `trials` successes."""
    counts = np.arange(trials + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    logs = factorials[trials] - factorials - factorials[::-1]
    chance: Array = np.exp(logs + counts * math.log(share) + (trials - counts) * math.log1p(-share))
    return chance
