"""What goes back to the model: one format for every cell, cut to a budget with the full text kept in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codeact.types import Model
from sandbox.types import CellError, CellResult, Dropped, Notice, Output, Rich, Rung, Stream

NOTHING = "(the code printed nothing)"
BUDGET = 8000
"""Characters of one observation's output."""
SMALL_BUDGET = 3000
"""The same, for a small model: it reads slowly and loses its way in long texts."""
_EMPTY = ("Series([]", "Empty DataFrame")
_SILENT = ("<Figure size",)
"""Texts that stand for a picture which is sent or named itself."""


KeepFull = Callable[[str], str]
"""Stores a full text in the sandbox and returns the path at which code finds it."""


def budget_of(model: Model) -> int:
    """Characters of one observation for this model."""
    return SMALL_BUDGET if model.small else BUDGET


def cell_text(
    cell: CellResult, pictures: int = 0, *, budget: int = BUDGET, keep_full: KeepFull | None = None
) -> str:
    """What a cell printed, returned, displayed and raised, in that order, as one text of about `budget` characters."""
    text = "".join(_output_text(output) for output in cell.outputs).strip("\n")
    if pictures:
        text += f"\n({pictures} figure{'s' if pictures > 1 else ''} displayed and saved)"
    if cell.lost:
        text += f"\n(lost: {cell.lost}; files in /workspace {'are gone too' if 'everything' in cell.lost else 'are still there'})"
    if cell.survived is not None:
        text += f"\n({_survivors(cell)})"
    text = text.strip("\n")
    if not text:
        return NOTHING
    return cut(text, budget, keep_full)


def cut(text: str, budget: int, keep_full: KeepFull | None = None) -> str:
    """The beginning and the end of a text that is longer than `budget`, and a word on what lies between."""
    if len(text) <= budget:
        return text
    where = f"; the full text is in {keep_full(text)}" if keep_full else ""
    head, tail = text[: budget * 2 // 3], text[-(budget // 3) :]
    whole, rest = head[: head.rfind("\n") + 1], tail[tail.find("\n") + 1 :]
    head = (whole if len(whole) > len(head) // 2 else head).rstrip(
        "\n"
    )  # a line may be longer than all there is room for
    tail = rest if len(rest) > len(tail) // 2 else tail
    return f"{head}\n... {len(text) - len(head) - len(tail)} characters left out{where} ...\n{tail}"


def is_empty(text: str) -> bool:
    """Whether all that was shown is a table, a series or a collection without anything in it."""
    return text.startswith(_EMPTY) or text.strip() in ("[]", "{}", "()", "set()", "nan")


def names_text(names: Mapping[str, str]) -> str:
    """The variables that exist, as one line: `df (DataFrame 60×4), total (int)`."""
    return ", ".join(f"{name} ({kind})" for name, kind in names.items())


def _survivors(cell: CellResult) -> str:
    kept = ", ".join(map(str, cell.survived or ()))
    return f"variables that are still there: {kept}" if kept else "there are no variables"


def _output_text(output: Output) -> str:
    match output:
        case Stream(_, text):
            return text
        case Rich(_, data):
            text = data.get("text/plain", "")
            return "" if text.startswith(_SILENT) else text.rstrip("\n") + "\n"
        case CellError(_, _, traceback):
            return f"\n{traceback}\n"
        case Dropped(size, reason):
            return f"\n... {size} bytes were not kept: {reason} ...\n"
        case Notice(text):
            return f"\n({text})\n"
        case Rung():
            return f"\n({output})\n"
