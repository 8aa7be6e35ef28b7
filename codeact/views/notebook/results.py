"""A result as a notebook shows it: the answer, and how it was found behind a fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeact.views import story as stories
from codeact.views.notebook import cell_number
from codeact.views.notebook.page import Page

if TYPE_CHECKING:
    from codeact.types import Result

_drawn: dict[str, int | None] = {}
"""The runs that drew themselves, and the last cell that each did so in."""


def drew(run: str) -> None:
    _drawn[run] = cell_number()


def html(result: Result[Any]) -> str:
    return Page().folded(stories.tell(result.events), result.answer)


def show(result: Result[Any]) -> None:
    """Displays a result, but for one that the same cell has just drawn."""
    from IPython.display import display

    if result.run in _drawn and _drawn[result.run] == cell_number():
        return
    said = f"(a result of codeact: {result.status})"
    data: dict[str, Any] = {"text/plain": said, "text/html": html(result)}
    display(data, raw=True)  # type: ignore[no-untyped-call]
