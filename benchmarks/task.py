"""A task with its right answer, and how an answer is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """`data` are files by the name they get; `tolerance` is absolute, for numbers."""

    id: str
    question: str
    data: Mapping[str, Path]
    answer: Any
    tolerance: float = 0.0

    def is_right(self, answer: Any) -> bool:
        """Whether an answer is the right one: a number within the tolerance, text but for case and outer spaces.

        A number that was given as text counts; a sentence that holds the answer does not.
        """
        if isinstance(self.answer, bool) or isinstance(answer, bool):
            return answer is self.answer
        if isinstance(self.answer, int | float):
            number = _number(answer)
            return number is not None and abs(number - self.answer) <= self.tolerance
        if isinstance(self.answer, str):
            return isinstance(answer, str) and answer.strip().casefold() == self.answer.strip().casefold()
        return bool(answer == self.answer)


def _number(answer: Any) -> float | None:
    try:
        return float(answer)
    except (TypeError, ValueError):
        return None
