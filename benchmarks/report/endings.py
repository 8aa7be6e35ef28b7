"""Plots of how long attempts took, how they ended, and what they met on the way."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.analysis import Analysis, ArmFigures
from benchmarks.attempts import ERROR_CLASSES, STOP_REASONS, Attempt
from benchmarks.report.plot import LEFT, Cell, Plot, bounds, percent
from benchmarks.report.svg import WIDTH, Canvas, Scale
from benchmarks.stats import Interval, wilson

# -- 6: times ---------------------------------------------------------------------------------------------------------

PARTS: Mapping[str, Callable[[Attempt], float]] = {
    "all": lambda made: made.wall_s,
    "model": lambda made: made.llm_s,
    "tools": lambda made: made.tool_s,
    "sandbox": lambda made: made.sandbox_s,
}


def times(found: Analysis) -> Plot:
    columns = ("arm", "task", "repeat", "all", "model", "tools", "sandbox", "rest")
    rows: list[tuple[Cell, ...]] = [(m.arm, m.task, m.repeat, *_seconds(m)) for m in found.kept]
    title = "Seconds, and what they went to"
    if not found.kept:
        return Plot("times", title, "", None, columns, rows, "there are no attempts")
    canvas = Canvas(0, "How many attempts ended within how many seconds")
    start = canvas.legend(found.arms, 14) + 20
    width, height, gap = (WIDTH - 46 - 12 - 30) / 2, 96.0, 58.0
    for place, (part, seconds) in enumerate(PARTS.items()):
        left = 46 + (place % 2) * (width + 30)
        top = start + (place // 2) * (height + gap) + 8
        across = _seconds_scale([seconds(made) for made in found.kept], left, left + width)
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


def _seconds(made: Attempt) -> tuple[float, ...]:
    parts = (made.wall_s, made.llm_s, made.tool_s, made.sandbox_s, made.overhead_s)
    return tuple(round(value, 3) for value in parts)


def _seconds_scale(values: Sequence[float], begin: float, end: float) -> Scale:
    """Logarithmic where the longest would press all others to the edge."""
    largest = max(*values, 0.01)
    middle = statistics.median(values)
    if middle <= 0 or largest < 8 * middle:
        return Scale(0, largest * 1.05, begin, end)
    low = max(min(value for value in values if value > 0), largest / 3000)
    return Scale(low / 1.1, largest * 1.1, begin, end, log=True)


def _steps(values: Sequence[float], across: Scale, up: Scale) -> Iterable[tuple[float, float]]:
    """The empirical distribution function."""
    yield across.begin, up(0)
    for place, value in enumerate(values):
        x = across(max(value, across.low))
        yield x, up(place / len(values))
        yield x, up((place + 1) / len(values))
    yield across.end, up(1)


# -- 7 and 8: how attempts end ----------------------------------------------------------------------------------------


def stops(found: Analysis) -> Plot:
    columns = ("arm", "ended by", "attempts", "share")
    kinds = [reason for reason in STOP_REASONS if any(each.stops[reason] for each in found.figures)]
    shares: list[tuple[str, list[tuple[str, int, float]]]] = []
    for each in found.figures:
        solved = sum(bool(made.success) for made in found.kept if made.arm == each.arm)
        counts = [("right answer", solved), ("wrong answer", each.stops["submitted"])]
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
    across = Scale(0, 1, LEFT, WIDTH - 24)
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
                canvas.text(across(count / each.attempts) + 4, y + 9, f"{solved}/{count}", style="tick")
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
        *(bounds(recovery) if count else (None, None, None)),
    )
