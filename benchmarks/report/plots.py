"""The eight plots of a report, each with the table that it draws."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks import stats
from benchmarks.analysis import MEASURES, Analysis, of_sizes
from benchmarks.attempts import Attempt
from benchmarks.report.endings import errors, stops, times
from benchmarks.report.plot import LEFT, Plot, bounds, category_name, percent, points, said, times_as_much
from benchmarks.report.svg import WIDTH, Canvas, Scale, around, number
from benchmarks.stats import Interval

ROW = 22
MOST_ROWS = 150
"""Tasks that one picture shows."""


def plots(found: Analysis) -> list[Plot]:
    return [
        success_by_category(found),
        ratios_by_category(found),
        growth(found),
        cost_against_success(found),
        calls_by_task(found),
        times(found),
        stops(found),
        errors(found),
    ]


# -- 1 and 2: forests -------------------------------------------------------------------------------------------------


def success_by_category(found: Analysis) -> Plot:
    rows: list[tuple[str, list[tuple[int, str, Interval, int]]]] = []
    for place, pairing in enumerate(found.pairings, 1):
        entries = [("all tasks", pairing.difference, pairing.tasks)]
        entries += [
            (category_name(each.category), each.difference, each.tasks) for each in pairing.categories
        ]
        _collect(rows, entries, place, pairing.theirs)
    canvas = _forest(
        rows,
        title="Difference of success by category",
        label=f"points of success: {found.arms[0] if found.arms else ''} minus the other",
        show=points,
        null=0.0,
        others=found.arms[1:],
    )
    return Plot(
        "success",
        "Success, by category",
        f"To the right of 0, {found.arms[0] if found.arms else ''} solves more. Bars are 95 % intervals; one that crosses 0 is compatible with no difference.",
        canvas,
        ("category", "against", "tasks", "difference", "low", "high"),
        tuple(
            (label, theirs, tasks, *bounds(interval))
            for label, entries in rows
            for _, theirs, interval, tasks in entries
        ),
        "" if canvas else "there is one arm",
    )


def ratios_by_category(found: Analysis) -> Plot:
    calls: list[tuple[str, list[tuple[int, str, Interval, int]]]] = []
    tokens: list[tuple[str, list[tuple[int, str, Interval, int]]]] = []
    for place, pairing in enumerate(found.pairings, 1):
        whole = {ratio.measure: ratio for ratio in pairing.ratios}
        for rows, measure, part in ((calls, "model calls", "calls"), (tokens, "tokens", "tokens")):
            entries = [("all tasks", whole[measure].all, whole[measure].tasks[0])]
            entries += [
                (category_name(each.category), getattr(each, part), each.tasks) for each in pairing.categories
            ]
            _collect(rows, [e for e in entries if e[1] is not None], place, pairing.theirs)  # type: ignore[misc]
    ours = found.arms[0] if found.arms else ""
    panels = [
        _forest(
            rows, title=f"Ratio of {what} by category", label=f"{what}: {ours} over the other", show=times_as_much,
            null=1.0, others=found.arms[1:], log=True,
        )
        for what, rows in (("model calls", calls), ("tokens", tokens))
    ]  # fmt: skip
    return Plot(
        "ratios",
        "Model calls and tokens, by category",
        f"To the left of 1, {ours} needs less. Geometric means over all tasks, solved or not.",
        _below(panels, "Ratios of model calls and tokens by category"),
        ("measure", "category", "against", "tasks", "ratio", "low", "high"),
        tuple(
            (what, label, theirs, tasks, *bounds(interval))
            for what, rows in (("model calls", calls), ("tokens", tokens))
            for label, entries in rows
            for _, theirs, interval, tasks in entries
        ),
        "" if any(panels) else "there is one arm",
    )


def _collect(
    rows: list[tuple[str, list[tuple[int, str, Interval, int]]]],
    entries: Iterable[tuple[str, Interval, int]],
    place: int,
    theirs: str,
) -> None:
    known = dict(rows)
    for label, interval, tasks in entries:
        if label not in known:
            known[label] = []
            rows.append((label, known[label]))
        known[label].append((place, theirs, interval, tasks))


def _forest(
    rows: Sequence[tuple[str, Sequence[tuple[int, str, Interval, int]]]],
    *,
    title: str,
    label: str,
    show: Callable[[float], str],
    null: float,
    others: Sequence[str],
    log: bool = False,
) -> Canvas | None:
    if not rows:
        return None
    values = [
        value
        for _, entries in rows
        for _, _, interval, _ in entries
        for value in (interval.estimate, interval.low, interval.high)
        if value is not None
    ]
    step = max(ROW, 11 * len(others) + 6)
    canvas = Canvas(0, title)
    top = canvas.legend([f"against {name}" for name in others], 14, first=1) + 12
    bottom = top + step * len(rows)
    scale = Scale(*around(values, log=log, at_least=[null]), LEFT + 8, WIDTH - 12, log)
    canvas.bottom_axis(scale, top, bottom, label, show)
    canvas.line(scale(null), top, scale(null), bottom, "null")
    for place, (name, entries) in enumerate(rows):
        middle = top + step * (place + 0.5)
        canvas.text(LEFT, middle + 4, name, anchor="end", style="strong" if place == 0 else "", most=15)
        for offset, (arm, theirs, interval, tasks) in enumerate(entries):
            y = middle + (offset - (len(entries) - 1) / 2) * 11
            if interval.low is not None and interval.high is not None:
                canvas.line(scale(interval.low), y, scale(interval.high), y, f"c{arm % 6} line")
            canvas.mark(
                scale(interval.estimate),
                y,
                arm,
                f"{name}, against {theirs}: {said(interval, show)}, {tasks} tasks",
            )
    canvas.height = bottom + 36
    return canvas


def _below(panels: Iterable[Canvas | None], title: str) -> Canvas | None:
    """Pictures one below the other."""
    known = [panel for panel in panels if panel is not None]
    if not known:
        return None
    whole = Canvas(0, title)
    for panel in known:
        whole.shapes.append(f'<g transform="translate(0 {whole.height:g})">{"".join(panel.shapes)}</g>')
        whole.height += panel.height
    return whole


# -- 3: growth --------------------------------------------------------------------------------------------------------


def growth(found: Analysis) -> Plot:
    sized = of_sizes(found.kept)
    sizes = sorted({made.size for made in sized if made.size})
    columns = ("arm", "task", "size", "repeat", "tokens", "solved")
    rows = tuple(
        (m.arm, m.task, m.size, m.repeat, m.total_tokens, "yes" if m.success else "no") for m in sized
    )
    reading = "Both axes are logarithmic: a line of slope 1 doubles when the task does. Lines join geometric means; hollow marks are attempts that failed."
    title = "Tokens, as tasks grow"
    if not sized:
        return Plot(
            "growth", title, reading, None, columns, rows, "no tasks of this run differ only in their size"
        )
    canvas = Canvas(330, "Tokens against the size of tasks, both logarithmic")
    slopes = [
        f"{arm}: slope {said(found.slopes[arm], lambda v: f'{v:.2f}')}" if arm in found.slopes else arm
        for arm in found.arms
    ]
    y = 14.0
    for place, words in enumerate(slopes):
        canvas.legend([words], y, first=place)
        y += 16
    top, bottom = y + 8, 290
    across = Scale(*around(sizes, log=True), 46, WIDTH - 12, log=True)
    up = Scale(*around([m.total_tokens for m in sized], log=True), bottom, top, log=True)
    canvas.left_axis(up, across.begin, across.end, "tokens an attempt")
    canvas.bottom_axis(across, top, bottom, "N: how many things the task is about")
    for place, arm in enumerate(found.arms):
        own = [made for made in sized if made.arm == arm]
        shift = (place - (len(found.arms) - 1) / 2) * 5
        for made in own:
            tip = f"{arm}, {made.task}, repeat {made.repeat}: {made.total_tokens:,} tokens, {'solved' if made.success else 'failed'}"
            canvas.mark(
                across(made.size or 1) + shift,
                up(made.total_tokens),
                place,
                tip,
                size=3,
                hollow=not made.success,
            )
        means = {
            size: statistics.geometric_mean([m.total_tokens for m in own if m.size == size])
            for size in sizes
            if any(m.size == size for m in own)
        }
        canvas.path([(across(size) + shift, up(mean)) for size, mean in means.items()], f"c{place % 6} line")
    return Plot("growth", title, reading, canvas, columns, rows)


# -- 4: cost against success ------------------------------------------------------------------------------------------


def cost_against_success(found: Analysis) -> Plot:
    priced = bool(found.figures) and all(each.means["USD"] for each in found.figures)
    measure = "USD" if priced else "tokens"
    label = "USD an attempt" if priced else "tokens an attempt; no price is known, or it is 0"
    costs = {
        each.arm: _mean_of(measure, [m for m in found.kept if m.arm == each.arm]) for each in found.figures
    }
    columns = ("arm", "success", "low", "high", f"mean {measure}", "low", "high")
    rows = [(each.arm, *bounds(each.success), *bounds(costs[each.arm], 6)) for each in found.figures]
    title = "Cost against success"
    if not found.figures:
        return Plot("cost", title, "", None, columns, rows, "there are no attempts")
    canvas = Canvas(256, title)
    top = canvas.legend(found.arms, 14) + 30
    bottom = 216
    up = Scale(0, 1, bottom, top)
    ends = [v for cost in costs.values() for v in (cost.estimate, cost.low, cost.high) if v is not None]
    across = Scale(0, around(ends, at_least=[0])[1], 46, WIDTH - 14)
    canvas.left_axis(up, across.begin, across.end, "success", percent)
    canvas.bottom_axis(across, top, bottom, label, most=5)
    for each in found.figures:
        arm, place, cost = each.arm, found.arms.index(each.arm), costs[each.arm]
        x, y = across(cost.estimate), up(each.success.estimate)
        if cost.low is not None and cost.high is not None:
            canvas.line(across(cost.low), y, across(cost.high), y, f"c{place % 6} line")
        if each.success.low is not None and each.success.high is not None:
            canvas.line(x, up(each.success.low), x, up(each.success.high), f"c{place % 6} line")
        tip = f"{arm}: success {said(each.success, percent)}, {number(cost.estimate)} {measure} an attempt"
        canvas.mark(x, y, place, tip, size=5)
    reading = "Better is up and to the left. Bars are 95 % intervals: Wilson's by task for success, a bootstrap over templates for the mean cost."
    return Plot("cost", title, reading, canvas, columns, rows)


def _mean_of(measure: str, made: Sequence[Attempt]) -> Interval:
    """The mean over tasks, each the mean of its repeats."""
    tasks: dict[str, tuple[str, list[float]]] = {}
    for each in made:
        tasks.setdefault(each.task, (each.template or each.task, []))[1].append(
            MEASURES[measure](each) or 0.0
        )
    means = [statistics.fmean(values) for _, values in tasks.values()]
    return stats.mean(means, [template for template, _ in tasks.values()]).interval()


# -- 5: calls by task -------------------------------------------------------------------------------------------------


def calls_by_task(found: Analysis) -> Plot:
    tasks: dict[str, dict[str, list[int]]] = {}
    solved: dict[tuple[str, str], list[bool]] = {}
    for made in found.kept:
        tasks.setdefault(made.task, {}).setdefault(made.arm, []).append(made.llm_calls)
        solved.setdefault((made.task, made.arm), []).append(bool(made.success))
    means = {task: {arm: statistics.fmean(calls) for arm, calls in by.items()} for task, by in tasks.items()}
    rows = tuple(
        (task, arm, round(mean, 2), f"{sum(solved[task, arm])} of {len(solved[task, arm])}")
        for task, by in means.items()
        for arm, mean in by.items()
    )
    columns = ("task", "arm", "model calls", "solved")
    title = "Model calls, task by task"
    if not means:
        return Plot("calls", title, "", None, columns, rows, "there are no attempts")
    first = found.arms[0]
    order = sorted(
        means, key=lambda task: (max(means[task].values()), means[task].get(first, 0)), reverse=True
    )
    shown = order[:MOST_ROWS]
    step = 15 if len(shown) <= 40 else 9
    canvas = Canvas(0, "Model calls by task")
    top = canvas.legend(found.arms, 14) + 12
    bottom = top + step * len(shown) + 4
    log = max(max(by.values()) for by in means.values()) > 30
    values = [value for by in means.values() for value in by.values()]
    low, high = around(values, log=log, at_least=[1])
    across = Scale(low if log else 0, high, 120 if step >= 12 else 16, WIDTH - 12, log)
    canvas.bottom_axis(across, top, bottom, "model calls an attempt, mean of repeats")
    for place, task in enumerate(shown):
        y = top + step * (place + 0.5) + 2
        by = means[task]
        if step >= 12:
            canvas.text(114, y + 4, task, anchor="end", most=17)
        canvas.line(across(min(by.values())), y, across(max(by.values())), y, "axis")
        for arm in reversed(found.arms):
            if arm in by:
                good = any(solved[task, arm])
                tip = f"{task}, {arm}: {by[arm]:.3g} model calls, solved {sum(solved[task, arm])} of {len(solved[task, arm])}"
                canvas.mark(
                    across(by[arm]),
                    y,
                    found.arms.index(arm),
                    tip,
                    size=3.5 if step >= 12 else 2.6,
                    hollow=not good,
                )
    canvas.height = bottom + 36
    more = (
        f" The {len(order) - len(shown)} tasks with the fewest calls are only in the table."
        if len(order) > len(shown)
        else ""
    )
    names = "" if step >= 12 else " Point at a mark for its task."
    return Plot(
        "calls",
        title,
        f"A line joins the arms of one task; a hollow mark was never solved.{names}{more}",
        canvas,
        columns,
        rows,
    )
