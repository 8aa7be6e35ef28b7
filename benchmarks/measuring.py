"""Medians of things done in turn, and the figures that they make."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A median with its floor, in `unit`; `aim` is the most that it should be, as a value or as a ratio to the floor."""

    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_is: str = ""
    aim: str = ""


def interleaved(ours: Callable[[], object], floor: Callable[[], object], times: int) -> tuple[float, float]:
    """Medians of two things done in turn, so that what else the machine does hits both alike."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for does, seconds in zip((ours, floor), taken, strict=True):
            began = time.perf_counter()
            does()
            seconds.append(time.perf_counter() - began)
    return statistics.median(taken[0]), statistics.median(taken[1])


def median_seconds(does: Callable[[], object], times: int) -> float:
    return interleaved(does, lambda: None, times)[0]


def row(figure: Figure) -> str:
    text = f"{figure.name:32} {figure.value:9.3g} {figure.unit:5}"
    if figure.floor is not None:
        text += f" {figure.floor:9.3g}  {figure.value / figure.floor:5.2f} ×  ({figure.floor_is})"
    return text + (f"  aim {figure.aim}" if figure.aim else "")
