"""From attempts to what is reported: per arm, and the first arm against each of the others, paired by task."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import stats
from benchmarks.attempts import ERROR_CLASSES, STOP_REASONS, Attempt
from benchmarks.stats import Interval

MARGIN = 0.05
"""By how much of success an arm may be behind and still count as not worse."""
FIRST = "code"
"""The arm that the others are compared with, where it ran."""
MEASURES: Mapping[str, Callable[[Attempt], float | None]] = {
    "model calls": lambda made: made.llm_calls,
    "tokens": lambda made: made.total_tokens,
    "seconds": lambda made: made.wall_s,
    "USD": lambda made: made.cost_usd,
}
"""What a comparison of cost is made of. A ratio needs values above 0: tasks with others are left out of it."""


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """One arm. `success` has Wilson's interval with tasks as its unit; all other means are over tasks too, of the mean of their repeats."""

    arm: str
    tasks: int
    attempts: int
    success: Interval
    pass_k: float
    answer_ok: float | None
    state_ok: float | None
    """None where older lines do not tell."""
    side_effects: int
    means: Mapping[str, float | None]
    calls_per_success: float | None
    """All calls, those of failures too, over the attempts that succeeded."""
    tool_calls: float
    redundant_calls: float
    most_parallel: int
    definition_tokens: float
    cached_share: float
    """Of the prompt's tokens."""
    reasoning_share: float
    """Of the completion's tokens."""
    observation_chars: float
    with_errors: int
    recovered: int
    stops: Mapping[str, int]
    """How attempts ended that were not right."""
    errors: Mapping[str, tuple[int, int]]
    """By class: attempts with such an error, and how many of these succeeded."""
    seconds: Mapping[str, float]
    """Of all attempts, by what they went to."""
    infra_failures: int
    estimated: bool
    """Whether tokens were estimated, for an endpoint that does not count."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Geometric mean of the first arm over that of the other, by task; below 1 the first needs less."""

    measure: str
    all: Interval | None
    solved: Interval | None
    """Over the tasks that both arms solved at least once, their solved attempts only."""
    tasks: tuple[int, int]
    clusters: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CategoryFigures:
    category: str
    tasks: int
    clusters: int
    difference: Interval
    calls: Interval | None
    tokens: Interval | None


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """`p_value` is adjusted by Holm over the family, `raw` is not."""

    name: str
    claim: str
    estimate: Interval
    raw: float
    p_value: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Pairing:
    """The first arm against another, over the tasks that both have."""

    ours: str
    theirs: str
    tasks: int
    clusters: int
    difference: Interval
    mcnemar: float
    only_ours: int
    only_theirs: int
    same: bool
    """Whether both solve each task equally often."""
    solved: int
    """Attempts of both that succeeded."""
    ratios: tuple[Ratio, ...]
    categories: tuple[CategoryFigures, ...]
    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """`k` is the number of repeats that each task has in each arm, at least, `most` at most. `dropped` are (task, repeat) that are left out
    of every arm, since one of them has no verdict there; `without` are arms that have no verdict at all, and are left out themselves."""

    arms: tuple[str, ...]
    tasks: int
    k: int
    most: int
    kept: tuple[Attempt, ...]
    dropped: tuple[tuple[str, int], ...]
    without: tuple[str, ...]
    figures: tuple[ArmFigures, ...]
    pairings: tuple[Pairing, ...]
    slopes: Mapping[str, Interval]
    """By arm: how tokens grow with the size of tasks that differ in nothing else."""
    detectable: float | None


def analyse(attempts: Sequence[Attempt], arms: Sequence[str] = ()) -> Analysis:
    """`arms` is their order; those that have attempts and are not named come behind."""
    there = dict.fromkeys(made.arm for made in attempts)
    judged = {made.arm for made in attempts if made.scored}
    named = [arm for arm in dict.fromkeys((*arms, *there)) if arm in judged]
    order = tuple(sorted(named, key=lambda arm: arm != FIRST))
    kept, dropped = complete(attempts, order)
    tasks = {made.task for made in kept}
    by_arm = {arm: [made for made in kept if made.arm == arm] for arm in order}
    repeats = [len(group) for made in by_arm.values() for group in _by_task(made).values()]
    failures = {arm: sum(made.infra_failures for made in attempts if made.arm == arm) for arm in order}
    return Analysis(
        arms=order,
        tasks=len(tasks),
        k=min(repeats, default=0),
        most=max(repeats, default=0),
        kept=tuple(kept),
        dropped=tuple(dropped),
        without=tuple(arm for arm in there if arm not in judged),
        figures=tuple(_figures(arm, by_arm[arm], failures[arm]) for arm in order if by_arm[arm]),
        pairings=tuple(
            pairing(order[0], by_arm[order[0]], other, by_arm[other]) for other in order[1:] if by_arm[other]
        ),
        slopes={arm: found for arm in order if (found := _slope(by_arm[arm])) is not None},
        detectable=stats.detectable(len(tasks)) if len(order) > 1 and tasks else None,
    )


def complete(attempts: Iterable[Attempt], arms: Sequence[str]) -> tuple[list[Attempt], list[tuple[str, int]]]:
    """The attempts whose task and repeat have a verdict in every arm, and the (task, repeat) of the others."""
    scored: dict[tuple[str, int], set[str]] = defaultdict(set)
    made_all = [made for made in attempts if made.arm in arms]
    for made in made_all:
        scored[made.task, made.repeat] |= {made.arm} if made.scored else set()
    whole = {place for place, found in scored.items() if found >= set(arms)}
    kept = [made for made in made_all if (made.task, made.repeat) in whole and made.scored]
    kept.sort(key=lambda made: (made.category, made.task, made.repeat))
    return kept, sorted(set(scored) - whole)


def _by_task(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    groups: dict[str, list[Attempt]] = defaultdict(list)
    for made in attempts:
        groups[made.task].append(made)
    return groups


def _share(values: Iterable[object]) -> float:
    found = [bool(value) for value in values]
    return sum(found) / len(found) if found else math.nan


def _mean(tasks: Mapping[str, Sequence[Attempt]], value: Callable[[Attempt], float | None]) -> float | None:
    """Over tasks, of the mean of their repeats; None where one of them is not known."""
    found = [[value(each) for each in group] for group in tasks.values()]
    known = [[each for each in group if each is not None] for group in found]
    return statistics.fmean(map(statistics.fmean, known)) if known == found and known else None


def _fmean(tasks: Mapping[str, Sequence[Attempt]], value: Callable[[Attempt], float]) -> float:
    return statistics.fmean(statistics.fmean(map(value, group)) for group in tasks.values())


def _figures(arm: str, made: Sequence[Attempt], failures: int) -> ArmFigures:
    tasks = _by_task(made)
    solved = sum(bool(each.success) for each in made)
    prompt, completion = (
        sum(getattr(each, f"{side}_tokens") for each in made) for side in ("prompt", "completion")
    )
    return ArmFigures(
        arm=arm,
        tasks=len(tasks),
        attempts=len(made),
        success=stats.wilson(sum(_share(e.success for e in group) for group in tasks.values()), len(tasks)),
        pass_k=stats.pass_all(
            [[bool(e.success) for e in group] for group in tasks.values()], min(map(len, tasks.values()))
        ),
        answer_ok=_mean(tasks, lambda each: each.answer_ok),
        state_ok=_mean(tasks, lambda each: each.state_ok),
        side_effects=sum(each.side_effect is not None for each in made),
        means={name: _mean(tasks, measure) for name, measure in MEASURES.items()},
        calls_per_success=sum(each.llm_calls for each in made) / solved if solved else None,
        tool_calls=_fmean(tasks, lambda each: each.tool_calls),
        redundant_calls=_fmean(tasks, lambda each: each.redundant_calls),
        most_parallel=max(each.max_parallel for each in made),
        definition_tokens=_fmean(tasks, lambda each: each.tool_definition_tokens),
        cached_share=sum(each.cached_prompt_tokens for each in made) / prompt if prompt else 0.0,
        reasoning_share=sum(each.reasoning_tokens for each in made) / completion if completion else 0.0,
        observation_chars=_fmean(tasks, lambda each: each.observation_chars),
        with_errors=sum(bool(each.errors) for each in made),
        recovered=sum(each.recovered for each in made),
        stops={
            reason: sum(each.stop_reason == reason and not each.success for each in made)
            for reason in STOP_REASONS
        },
        errors={
            name: (
                sum(name in each.errors for each in made),
                sum(name in each.errors and bool(each.success) for each in made),
            )
            for name in ERROR_CLASSES
        },
        seconds={
            name: sum(getattr(each, f"{name}_s") for each in made)
            for name in ("llm", "tool", "sandbox", "overhead")
        },
        infra_failures=failures,
        estimated=any(each.tokens_estimated for each in made),
    )


# -- pairs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paired:
    """One task in both arms."""

    task: str
    template: str
    category: str
    ours: tuple[Attempt, ...]
    theirs: tuple[Attempt, ...]

    @property
    def difference(self) -> float:
        return _share(made.success for made in self.ours) - _share(made.success for made in self.theirs)


def paired(ours: Iterable[Attempt], theirs: Iterable[Attempt]) -> list[Paired]:
    one, other = _by_task(ours), _by_task(theirs)
    return [
        Paired(task, made[0].template or task, made[0].category, tuple(made), tuple(other[task]))
        for task, made in one.items()
        if task in other
    ]


def pairing(name: str, ours: Sequence[Attempt], other: str, theirs: Sequence[Attempt]) -> Pairing:
    pairs = paired(ours, theirs)
    first = [(bool(_first(pair.ours).success), bool(_first(pair.theirs).success)) for pair in pairs]
    ratios = tuple(ratio_of(measure, pairs) for measure in MEASURES)
    groups: dict[str, list[Paired]] = defaultdict(list)
    for pair in pairs:
        groups[pair.category].append(pair)
    return Pairing(
        ours=name,
        theirs=other,
        tasks=len(pairs),
        clusters=len({pair.template for pair in pairs}),
        difference=_difference(pairs).interval(),
        mcnemar=stats.mcnemar(first.count((True, False)), first.count((False, True))),
        only_ours=first.count((True, False)),
        only_theirs=first.count((False, True)),
        same=not any(pair.difference for pair in pairs),
        solved=sum(bool(made.success) for pair in pairs for made in (*pair.ours, *pair.theirs)),
        ratios=ratios,
        categories=tuple(
            CategoryFigures(
                category=category,
                tasks=len(group),
                clusters=len({pair.template for pair in group}),
                difference=_difference(group).interval(),
                calls=ratio_of("model calls", group).all,
                tokens=ratio_of("tokens", group).all,
            )
            for category, group in sorted(groups.items())
            if len(groups) > 1
        ),
        hypotheses=_hypotheses(name, other, pairs),
    )


def _first(made: Sequence[Attempt]) -> Attempt:
    return min(made, key=lambda each: each.repeat)


def _difference(pairs: Sequence[Paired]) -> stats.Bootstrap:
    return stats.difference([pair.difference for pair in pairs], [pair.template for pair in pairs])


def ratio_of(measure: str, pairs: Sequence[Paired]) -> Ratio:
    everywhere, count = _log_ratio(measure, pairs)
    both, solved = _log_ratio(measure, pairs, solved=True)
    return Ratio(
        measure,
        everywhere.interval().map(math.exp) if everywhere else None,
        both.interval().map(math.exp) if both else None,
        (count, solved),
        (everywhere.clusters if everywhere else 0, both.clusters if both else 0),
    )


def _log_ratio(
    measure: str, pairs: Sequence[Paired], *, solved: bool = False
) -> tuple[stats.Bootstrap | None, int]:
    """The logarithm of a ratio of geometric means, and over how many tasks."""
    rows = []
    for pair in pairs:
        ours, theirs = (
            _geometric(measure, [made for made in side if made.success or not solved])
            for side in (pair.ours, pair.theirs)
        )
        if ours is not None and theirs is not None:
            rows.append((ours, theirs, pair.template))
    if not rows:
        return None, 0
    one, other, clusters = zip(*rows, strict=True)
    return stats.ratio(one, other, clusters), len(rows)


def _geometric(measure: str, made: Sequence[Attempt]) -> float | None:
    values = [MEASURES[measure](each) for each in made]
    known = [value for value in values if value is not None and value > 0]
    return statistics.geometric_mean(known) if known and len(known) == len(values) else None


def _hypotheses(ours: str, theirs: str, pairs: Sequence[Paired]) -> tuple[Hypothesis, ...]:
    """The primary family, and nothing else gets a p value in the summary but McNemar's test."""
    difference = _difference(pairs)
    calls, _ = _log_ratio("model calls", pairs, solved=True)
    tokens, _ = _log_ratio("tokens", pairs)
    raw = {"H1": difference.p_value(-MARGIN, "greater")}
    raw |= {name: made.p_value(0.0) for name, made in (("H2", calls), ("H3", tokens)) if made is not None}
    adjusted = stats.holm(raw)
    claims = {
        "H1": f"{ours} solves at least as many tasks as {theirs}, less {MARGIN * 100:g} points",
        "H2": f"{ours} needs fewer model calls than {theirs} for a task that both solve",
        "H3": f"{ours} needs fewer tokens than {theirs} over all tasks",
    }
    estimates = {"H1": difference.interval()}
    estimates |= {
        name: made.interval().map(math.exp)
        for name, made in (("H2", calls), ("H3", tokens))
        if made is not None
    }
    right_side = {name: name == "H1" or each.estimate < 1 for name, each in estimates.items()}
    return tuple(
        Hypothesis(
            name,
            claims[name],
            estimates[name],
            raw[name],
            adjusted[name],
            holds=right_side[name] and adjusted[name] < 1 - stats.LEVEL,
        )
        for name in raw
    )


def of_sizes(made: Iterable[Attempt]) -> list[Attempt]:
    """Attempts at tasks of which there are some that differ in their size and in nothing else."""
    sized = [each for each in made if each.size and each.total_tokens]
    sizes: dict[str, set[int | None]] = defaultdict(set)
    for each in sized:
        sizes[each.template].add(each.size)
    return [each for each in sized if len(sizes[each.template]) > 1]


def _slope(made: Sequence[Attempt]) -> Interval | None:
    sized = of_sizes(made)
    if not sized:
        return None
    x, y = [float(each.size or 0) for each in sized], [float(each.total_tokens) for each in sized]
    return stats.slope(x, y, [each.template for each in sized]).interval()
