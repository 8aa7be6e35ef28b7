"""The eight plots of a report, each with the table that it draws."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.analysis import MEASURES, Analysis, ArmFigures
from benchmarks.attempts import ERROR_CLASSES, STOP_REASONS, Attempt
from benchmarks.report.svg import WIDTH, Canvas, Scale, around, number
from benchmarks.stats import Interval, wilson

ROW = 22
LEFT = 96
MOST_ROWS = 150
NAMES = {
    "A": "A atomic",
    "B": "B chain",
    "C": "C loop",
    "D": "D branch",
    "E": "E join",
    "F": "F faults",
    "G": "G bulky",
    "H": "H must not act",
}
"""Categories of `toolworld`, for people."""

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Plot:
    """`name` is that of its files; `reading` says how to read it. Without a canvas, `missing` says why there is none."""

    name: str
    title: str
    reading: str
    canvas: Canvas | None
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    missing: str = ""


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


def _category(name: str) -> str:
    return NAMES.get(name, name or "all")


def _bounds(interval: Interval | None) -> tuple[Cell, Cell, Cell]:
    if interval is None:
        return None, None, None
    return tuple(None if v is None else round(v, 4) for v in (interval.estimate, interval.low, interval.high))  # type: ignore[return-value]


def _said(interval: Interval, show: Callable[[float], str]) -> str:
    if interval.low is None or interval.high is None:
        return f"{show(interval.estimate)} (no interval: one template)"
    return f"{show(interval.estimate)} ({show(interval.low)} to {show(interval.high)})"


def points(value: float) -> str:
    return f"{value * 100:+.0f}" if abs(value) >= 0.005 else "0"


def percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def times_as_much(value: float) -> str:
    return f"{value:.2g}×"


# -- 1 and 2: forests -------------------------------------------------------------------------------------------------


def success_by_category(found: Analysis) -> Plot:
    rows: list[tuple[str, list[tuple[int, str, Interval, int]]]] = []
    for place, pairing in enumerate(found.pairings, 1):
        entries = [("all tasks", pairing.difference, pairing.tasks)]
        entries += [(_category(each.category), each.difference, each.tasks) for each in pairing.categories]
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
            (label, theirs, tasks, *_bounds(interval))
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
                (_category(each.category), getattr(each, part), each.tasks) for each in pairing.categories
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
            (what, label, theirs, tasks, *_bounds(interval))
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
                f"{name}, against {theirs}: {_said(interval, show)}, {tasks} tasks",
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
    sized = [made for made in found.kept if made.size and made.total_tokens]
    sizes = sorted({made.size for made in sized if made.size})
    columns = ("arm", "task", "size", "repeat", "tokens", "solved")
    rows = tuple(
        (m.arm, m.task, m.size, m.repeat, m.total_tokens, "yes" if m.success else "no") for m in sized
    )
    reading = "Both axes are logarithmic: a line of slope 1 doubles when the task does. Lines join geometric means; hollow marks are attempts that failed."
    title = "Tokens, as tasks grow"
    if len(sizes) < 2:
        return Plot(
            "growth", title, reading, None, columns, rows, "no tasks of this run differ only in their size"
        )
    canvas = Canvas(330, "Tokens against the size of tasks, both logarithmic")
    slopes = [
        f"{arm}: slope {_said(found.slopes[arm], lambda v: f'{v:.2f}')}" if arm in found.slopes else arm
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
    measure, label = (
        ("USD", "USD an attempt")
        if priced
        else ("tokens", "tokens an attempt (no price: the model is free or not in the table)")
    )
    spreads = {
        each.arm: _spread(measure, [m for m in found.kept if m.arm == each.arm]) for each in found.figures
    }
    columns = ("arm", "success", "low", "high", f"mean {measure}", "middle half from", "to")
    rows = tuple(
        (each.arm, *_bounds(each.success), *(round(value, 6) for value in spreads[each.arm]))
        for each in found.figures
    )
    if not found.figures:
        return Plot("cost", "Cost against success", "", None, columns, rows, "there are no attempts")
    canvas = Canvas(250, "Cost against success")
    top = canvas.legend(found.arms, 14) + 22
    bottom = 210
    up = Scale(0, 1, bottom, top)
    across = Scale(*around([v for spread in spreads.values() for v in spread], at_least=[0]), 46, WIDTH - 14)
    canvas.left_axis(up, across.begin, across.end, "success", percent)
    canvas.bottom_axis(across, top, bottom, label, most=5)
    for place, arm in enumerate(found.arms):
        each = next((figures for figures in found.figures if figures.arm == arm), None)
        if each is None:
            continue
        mean, low, high = spreads[arm]
        x, y = across(mean), up(each.success.estimate)
        canvas.line(across(low), y, across(high), y, f"c{place % 6} line")
        if each.success.low is not None and each.success.high is not None:
            canvas.line(x, up(each.success.low), x, up(each.success.high), f"c{place % 6} line")
        canvas.mark(
            x,
            y,
            place,
            f"{arm}: success {_said(each.success, percent)}, {number(mean)} {measure} an attempt",
            size=5,
        )
    return Plot(
        "cost",
        "Cost against success",
        "Better is up and to the left. Upright bars are 95 % intervals of success (Wilson, by task); level bars hold the middle half of attempts.",
        canvas,
        columns,
        rows,
    )


def _spread(measure: str, made: Sequence[Attempt]) -> tuple[float, float, float]:
    """Mean, and the quartiles on both sides."""
    values = sorted(value for each in made if (value := MEASURES[measure](each)) is not None) or [0.0]
    low, _, high = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    )
    return statistics.fmean(values), low, high


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
    across = Scale(low if log else 0, high, 120, WIDTH - 12, log)
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


# -- 6: times ---------------------------------------------------------------------------------------------------------

PARTS: Mapping[str, Callable[[Attempt], float]] = {
    "all": lambda made: made.wall_s,
    "model": lambda made: made.llm_s,
    "tools": lambda made: made.tool_s,
    "sandbox": lambda made: made.sandbox_s,
}


def times(found: Analysis) -> Plot:
    columns = ("arm", "task", "repeat", "all", "model", "tools", "sandbox", "rest")
    rows = tuple(
        (
            m.arm,
            m.task,
            m.repeat,
            *(round(v, 3) for v in (m.wall_s, m.llm_s, m.tool_s, m.sandbox_s, m.overhead_s)),
        )
        for m in found.kept
    )
    title = "Seconds, and what they went to"
    if not found.kept:
        return Plot("times", title, "", None, columns, rows, "there are no attempts")
    canvas = Canvas(0, "How many attempts ended within how many seconds")
    start = canvas.legend(found.arms, 14) + 20
    width, height, gap = (WIDTH - 46 - 12 - 30) / 2, 96.0, 58.0
    for place, (part, seconds) in enumerate(PARTS.items()):
        left = 46 + (place % 2) * (width + 30)
        top = start + (place // 2) * (height + gap) + 8
        largest = max(max(seconds(made) for made in found.kept), 0.01)
        across = Scale(0, largest * 1.05, left, left + width)
        up = Scale(0, 1, top + height, top)
        canvas.text(left, top - 6, {"all": "whole attempt"}.get(part, part), style="strong")
        if place % 2 == 0:
            canvas.left_axis(up, left, left + width, "", percent, 4)
        else:
            for tick in up.ticks(4):
                canvas.line(left, up(tick), left + width, up(tick), "grid")
        canvas.bottom_axis(across, top, top + height, "seconds", most=4)
        for index, arm in enumerate(found.arms):
            values = sorted(seconds(made) for made in found.kept if made.arm == arm)
            canvas.path(list(_steps(values, across, up)), f"c{index % 6} line")
    canvas.height = start + 2 * (height + gap) - gap + 44
    reading = "The share of attempts that needed at most so many seconds: the further left, the faster. A request waits in line where the endpoint answers one at a time."
    return Plot("times", title, reading, canvas, columns, rows)


def _steps(values: Sequence[float], across: Scale, up: Scale) -> Iterable[tuple[float, float]]:
    """The empirical distribution function."""
    yield across(0), up(0)
    for place, value in enumerate(values):
        yield across(max(value, 0)), up(place / len(values))
        yield across(max(value, 0)), up((place + 1) / len(values))
    yield across.end, up(1)


# -- 7 and 8: how attempts end ----------------------------------------------------------------------------------------


def stops(found: Analysis) -> Plot:
    columns = ("arm", "ended by", "attempts", "share")
    kinds = [reason for reason in STOP_REASONS if any(each.stops[reason] for each in found.figures)]
    shares: list[tuple[str, list[tuple[str, int, float]]]] = []
    for each in found.figures:
        solved = sum(bool(made.success) for made in found.kept if made.arm == each.arm)
        counts = [("right answer", solved), ("wrong answer", each.stops["submitted"] - solved)]
        counts += [
            (reason.replace("_", " "), each.stops[reason]) for reason in kinds if reason != "submitted"
        ]
        shares.append((each.arm, [(name, count, count / each.attempts) for name, count in counts]))
    rows = tuple((arm, name, count, round(share, 4)) for arm, parts in shares for name, count, share in parts)
    title = "How attempts ended"
    if not shares:
        return Plot("stops", title, "", None, columns, rows, "there are no attempts")
    names = [name for name, _, _ in shares[0][1]]
    styles = {name: f"seg{_segment(name)}" for name in names}
    canvas = Canvas(0, "How attempts ended, by arm")
    x, y = 8.0, 14.0
    for name in names:
        wide = 14 + len(name) * 6.2 + 12
        if x + wide > WIDTH and x > 8:
            x, y = 8.0, y + 16
        canvas.rect(x, y - 9, 10, 10, styles[name])
        canvas.text(x + 14, y, name)
        x += wide
    top = y + 14
    bottom = top + 30 * len(shares)
    across = Scale(0, 1, LEFT, WIDTH - 16)
    canvas.bottom_axis(across, top, bottom, "share of attempts", percent)
    for place, (arm, parts) in enumerate(shares):
        canvas.text(LEFT - 6, top + 30 * place + 19, arm, anchor="end", most=15)
        begin = 0.0
        for name, count, share in parts:
            if count:
                canvas.rect(
                    across(begin),
                    top + 30 * place + 5,
                    across(begin + share) - across(begin),
                    20,
                    styles[name],
                    f"{arm}, {name}: {count} attempts, {percent(share)}",
                )
            begin += share
    canvas.height = bottom + 36
    return Plot(
        "stops",
        title,
        "Limits count as failures; what the infrastructure failed is run again and not counted here.",
        canvas,
        columns,
        rows,
    )


def _segment(name: str) -> int:
    names = (
        "right answer",
        "wrong answer",
        "turn limit",
        "token limit",
        "time limit",
        "cost limit",
        "refused",
        "interrupted",
    )
    return names.index(name) if name in names else 7


def errors(found: Analysis) -> Plot:
    columns = (
        "class of error",
        "arm",
        "attempts with it",
        "of",
        "share",
        "of these solved",
        "recovery",
        "low",
        "high",
    )
    classes = [name for name in ERROR_CLASSES if any(each.errors[name][0] for each in found.figures)]
    rows = tuple((name, each.arm, *_error_cells(each, name)) for name in classes for each in found.figures)
    title = "Errors, and what was made of them"
    if not classes:
        return Plot("errors", title, "", None, columns, rows, "no attempt met an error")
    canvas = Canvas(0, "Errors by class, and how many attempts with them succeeded")
    top = canvas.legend(found.arms, 14) + 12
    step = 13 * len(found.figures) + 10
    bottom = top + step * len(classes)
    most = max(each.errors[name][0] / each.attempts for name in classes for each in found.figures)
    across = Scale(0, min(1.0, most * 1.12), LEFT, WIDTH - 44)
    canvas.bottom_axis(across, top, bottom, "share of attempts with such an error", percent, most=4)
    for place, name in enumerate(classes):
        y = top + step * place + 5
        canvas.text(LEFT - 6, y + (step - 10) / 2 + 4, name, anchor="end")
        for each in found.figures:
            index = found.arms.index(each.arm)
            count, solved = each.errors[name]
            tip = f"{each.arm}, {name}: {count} of {each.attempts} attempts, {solved} of them solved"
            canvas.rect(LEFT, y, across(count / each.attempts) - LEFT, 10, f"c{index % 6} pale", tip)
            canvas.rect(LEFT, y, across(solved / each.attempts) - LEFT, 10, f"c{index % 6} bar", tip)
            if count:
                canvas.text(across(count / each.attempts) + 4, y + 9, f"{solved}/{count}", style="soft")
            y += 13
    canvas.height = bottom + 36
    return Plot(
        "errors",
        title,
        "Pale: attempts that met the error; full: those of them that succeeded all the same (also as solved/met).",
        canvas,
        columns,
        rows,
    )


def _error_cells(each: ArmFigures, name: str) -> tuple[Cell, ...]:
    count, solved = each.errors[name]
    recovery = wilson(solved, count) if count else Interval(math.nan)
    return (
        count,
        each.attempts,
        round(count / each.attempts, 4),
        solved,
        *(_bounds(recovery) if count else (None, None, None)),
    )
