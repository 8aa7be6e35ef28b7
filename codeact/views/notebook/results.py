"""A result as a notebook shows it: the answer, and how it was found behind a fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeact.views import story as stories
from codeact.views.notebook import cell_number
from codeact.views.notebook.page import Page

if TYPE_CHECKING:
    from codeact.types import Result

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
    said = f"(a result of codeact: {result.status})"
    data: dict[str, Any] = {"text/plain": said, "text/html": html(result)}
    display(data, raw=True)  # type: ignore[no-untyped-call]
