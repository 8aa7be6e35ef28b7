"""What a plot is, and how its values are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.report.svg import Canvas
from benchmarks.stats import Interval

LEFT = 96
"""Where the names of rows end."""
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


def category_name(name: str) -> str:
    return NAMES.get(name, name or "all")


def bounds(interval: Interval | None, digits: int = 4) -> tuple[Cell, Cell, Cell]:
    if interval is None:
        return None, None, None
    return tuple(
        None if v is None else round(v, digits) for v in (interval.estimate, interval.low, interval.high)
    )  # type: ignore[return-value]


def said(interval: Interval, show: Callable[[float], str]) -> str:
    if interval.low is None or interval.high is None:
        return f"{show(interval.estimate)} (no interval: one template)"
    return f"{show(interval.estimate)} ({show(interval.low)} to {show(interval.high)})"


def points(value: float) -> str:
    """With a minus sign that is as wide as the plus."""
    return f"{value * 100:+.0f}".replace("-", "−") if abs(value) >= 0.005 else "0"


def percent(value: float) -> str:
    """Never all or none where it is not."""
    if 0 < value < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 <= value < 1 else f"{round(value * 100) + 0:d} %"


def times_as_much(value: float) -> str:
    return f"{value:.2g}×"
