"""A result as a notebook shows it: the answer, and how it was found behind a fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeact.views import story as stories
from codeact.views.markup import Bounds, cut
from codeact.views.notebook import cell_number
from codeact.views.notebook.page import Page, text

if TYPE_CHECKING:
    from codeact.types import Result

BOUNDS = Bounds(text=2_000)
_drawn: set[tuple[int | None, str]] = set()
"""The cell that was executed last, with the runs that it drew."""


def drew(run: str) -> None:
    cell = cell_number()
    for other in [each for each in _drawn if each[0] != cell]:
        _drawn.discard(other)
    _drawn.add((cell, run))


def html(result: Result[Any]) -> str:
    return Page().folded(stories.tell(result.events), result.answer)


def show(result: Result[Any]) -> None:
    """Displays a result, but for one that the same cell has just drawn."""
    from IPython.display import display

    if (cell_number(), result.run) in _drawn:
        return
    data: dict[str, Any] = {"text/plain": _said(result), "text/html": html(result)}
    display(data, raw=True)  # type: ignore[no-untyped-call]


def _said(result: Result[Any]) -> str:
    """For a terminal, and whoever draws no HTML: the answer, or why there is none."""
    if result.status == "answered":
        return cut(text(result.answer), BOUNDS)
    return f"{result.status}: {result.error}" if result.error else result.status
