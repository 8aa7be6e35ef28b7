"""Bringing a fresh kernel to the state that was: the cells that made it are executed again, in order.

Calls of tools are answered from the record; nothing new is executed. What comes out is compared with what came out first,
and what differs, or cannot be had again, is named.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from codeact import context, events
from codeact.answers import Answer
from codeact.run.history import Past
from codeact.workspace import FOLDER, PACKAGE
from sandbox import CellError, CellResult, Dropped, Rich, Sandbox, Stream

TOTAL_SECONDS = 300.0
"""For all cells together."""
CELL_SECONDS = 5.0
"""What a cell may take at least; else three times what it took first."""
MAX_SHOWN = 160
MAX_NAMES = 40
MAX_DIFFERENCES = 20
_VARYING = re.compile(r"\b0x[0-9a-f]{6,16}\b|(?<=\bCell )\d+|\bipykernel_\d+")
_ASIDE = f"import {PACKAGE}.aside as _aside; _kept = _aside.{{step}}(); del _aside, _kept"
_LIST = "import json as _json; print(_json.dumps([_n for _n in globals() if not _n.startswith('_')]))"


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restoration came to; the fields are those of `SandboxRestarted`. `left_out` are those of the `differences` that
    are on cells which were not executed again. `failed` is why there is none: the kernel is a fresh one then."""

    cells: tuple[int, ...] = ()
    differences: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    seconds: float = 0.0
    failed: str | None = None


class Restorer:
    """`set_up` makes a kernel what every kernel of the run is at first. `begin` and `end` stand around each cell, with its
    number. `answers` are those given since it was last asked, and `same` whether one is the recorded one. `stopped` says
    whether the person wants no more of it."""

    def __init__(
        self,
        box: Sandbox,
        *,
        set_up: Callable[[], None],
        begin: Callable[[int], None],
        end: Callable[[], None],
        answers: Callable[[], Sequence[Answer]],
        same: Callable[[events.AnswerGiven, Answer], bool],
        stopped: Callable[[], bool],
    ) -> None:
        self._box, self._set_up = box, set_up
        self._begin, self._end, self._stopped = begin, end, stopped
        self._answers, self._same = answers, same

    def fresh(self) -> None:
        """A kernel as it was at first. Raises SandboxError."""
        self._set_up()

    def restore(self, cells: Sequence[Past], seconds: float | None, *, files: bool) -> Restored:
        """Executes again what of `cells` can be, within `seconds`. A death on the way ends in a fresh kernel. `files`: those
        of the workspace are still there, and stay as they are.

        Raises SandboxError where there is no kernel to be had.
        """
        began = time.monotonic()
        deadline = began + min(TOTAL_SECONDS, TOTAL_SECONDS if seconds is None else seconds)
        self._set_up()
        if files:
            self._aside("keep")
        done: list[int] = []
        differences: list[str] = []
        left_out: list[str] = []
        doubtful: list[Past] = []
        for index, past in enumerate(cells):
            if not past.repeatable:
                left_out.append(_left_out(past))
                differences += left_out[-1:]
                doubtful.append(past)
                continue
            reason = self._no_more(deadline)
            if reason is not None:
                left_out.append(f"cell {past.number} and those after it were not run again: {reason}")
                differences += left_out[-1:]
                doubtful += cells[index:]
                break
            now, answers = self._again(past, deadline)
            if now.lost is not None:
                self._set_up()
                if files:
                    self._aside("back")
                names = self._missing(cells, cells)
                return Restored(
                    names=names,
                    seconds=time.monotonic() - began,
                    failed=f"the kernel ended again, in cell {past.number}: {now.lost}",
                )
            done.append(past.number)
            found = [*difference(past, now), *answered_otherwise(past, answers, self._same)]
            if found:
                doubtful.append(past)
                differences += found
            if past.network:
                differences.append(f"cell {past.number} used the network again")
        if files:
            self._aside("back")
        missing = self._missing(doubtful, cells)
        shown = _shortened(differences)
        return Restored(
            tuple(done),
            shown,
            tuple(line for line in left_out if line in shown),
            missing,
            time.monotonic() - began,
        )

    def _no_more(self, deadline: float) -> str | None:
        if self._stopped():
            return "the person interrupted"
        return "the time for that was used up" if time.monotonic() > deadline else None

    def _again(self, past: Past, deadline: float) -> tuple[CellResult, Sequence[Answer]]:
        timeout = min(max(CELL_SECONDS, 3 * past.seconds), max(1.0, deadline - time.monotonic()))
        self._begin(past.number)
        try:
            now = self._box.run(past.source, timeout=timeout, max_timeout=max(timeout, 3 * past.seconds))
        finally:
            self._end()
        return now, self._answers()

    def _aside(self, step: str) -> None:
        path = f"import sys; sys.path.append('/workspace/{FOLDER}')\n"
        self._box.run(f"{path}{_ASIDE.format(step=step)}\nsys.path.pop(); del sys", timeout=60)

    def _missing(self, doubtful: Iterable[Past], cells: Iterable[Past]) -> tuple[str, ...]:
        """Of the variables that doubtful cells made, and that none of all the `cells` deleted later, those that are not there."""
        gone = deleted(past.source for past in cells)
        made = [name for past in doubtful for name in assigned(past.source) if name not in gone]
        if not made:
            return ()
        try:
            there = set(json.loads(self._box.run(_LIST, timeout=CELL_SECONDS).stdout))
        except (ValueError, TypeError):
            return ()
        return tuple(dict.fromkeys(name for name in made if name not in there))[:MAX_NAMES]


def _left_out(past: Past) -> str:
    how = {"timeout": "took too long", "interrupted": "was interrupted"}.get(past.status)
    if how is None or (past.result is not None and past.result.lost is not None):
        return f"cell {past.number} was not run again: the kernel ended with it"
    return f"cell {past.number} was not run again: it {how}, and what it had done until then is missing"


def _shortened(lines: list[str]) -> tuple[str, ...]:
    more = len(lines) - MAX_DIFFERENCES
    return tuple(lines) if more <= 0 else (*lines[:MAX_DIFFERENCES], f"and {more} more differences")


def difference(past: Past, now: CellResult) -> Iterator[str]:
    """How what a cell showed differs from its first execution, in a line; none where it does not. Of what it wrote to standard error
    nothing is compared: progress is shown there, and warnings once."""
    was = past.result or CellResult("ok")
    if (past.status, _steady(str(was.error))) != (now.status, _steady(str(now.error))):
        yield f"cell {past.number} now {_ended(now)}, and first it {_ended(was)}"
        return
    if past.result is None or any(isinstance(o, Dropped) for o in (*was.outputs, *now.outputs)):
        return
    before, after = _said(was), _said(now)
    for one, other in zip((*before, None), (*after, None), strict=False):
        if one != other:
            yield f"cell {past.number} now shows {_quoted(other)} where it first showed {_quoted(one)}"
            return


def answered_otherwise(
    past: Past, now: Sequence[Answer], same: Callable[[events.AnswerGiven, Answer], bool]
) -> Iterator[str]:
    """How the answers that a cell gives differ from those that it gave first: the first that does, in a line."""
    for one, other in zip_longest(past.answers, now):
        if one is None or other is None or not same(one, other):
            shown, first = _answer(other and other.shown), _answer(one and one.answer)
            alike = " another" if one and other and shown == first else ""
            yield f"cell {past.number} now answers{alike} {shown} where it first answered {first}"
            return


def _answer(shown: Any) -> str:
    return "nothing" if shown is None else f"{shown!r:.{MAX_SHOWN}}"


def _ended(cell: CellResult) -> str:
    if cell.error is not None and cell.status == "error":
        return f"ended with {_quoted(str(cell.error))}"
    return {"ok": "ended well", "timeout": "took too long", "interrupted": "was interrupted"}.get(
        cell.status, f"ended as {cell.status}"
    )


def _said(cell: CellResult) -> list[str]:
    """What a cell wrote and showed, line by line, without what varies from one kernel to the next."""
    parts = []
    for output in cell.outputs:
        match output:
            case Stream("stdout", text):
                parts.append(text)
            case Rich(_, data):
                parts.append(data.get("text/plain", "") + "\n")
            case CellError(name, message, _):
                parts.append(f"{name}: {message}\n")
    return _steady("".join(parts)).splitlines()


def _steady(text: str) -> str:
    """Without what varies from one kernel to the next."""
    return _VARYING.sub("...", text)


def _quoted(text: str | None) -> str:
    if text is None:
        return "nothing"
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")


def assigned(source: str) -> list[str]:
    """The names that the code of a cell gives a value to, at its top level."""
    return [
        name for statement in _statements(source) for name in _names(statement) if not name.startswith("_")
    ]


def deleted(sources: Iterable[str]) -> set[str]:
    """The names that `del` took away at the top level of one cell or another, and that were given no value after it."""
    gone: set[str] = set()
    for statement in (statement for source in sources for statement in _statements(source)):
        if isinstance(statement, ast.Delete):
            gone |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        else:
            gone -= set(_names(statement))
    return gone


def _statements(source: str) -> list[ast.stmt]:
    """Of a cell, without its magics; none where it cannot be read."""
    plain = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n"))
    try:
        return ast.parse(plain).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _names(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            names = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
            yield from (name for name in names if name != "*")
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _names(child)


def words(restored: Restored) -> str:
    """What the model is told when its kernel died."""
    said = context.follow_ups()
    if not restored.cells:
        return said["lost"]
    told = said["restored"].format(cells=_cells(restored.cells))
    return f"{told} {not_as_it_was(restored)}".rstrip()


def not_as_it_was(restored: Restored) -> str:
    """What the model is told of a state that is not the one it knows; empty where it is."""
    said = context.follow_ups()
    if restored.failed is not None:
        return said["lost"]
    parts = []
    if restored.differences:
        parts.append(said["restored_differs"].format(differences="; ".join(restored.differences)))
    if restored.names:
        parts.append(said["restored_missing"].format(names=", ".join(restored.names)))
    return " ".join(parts)


def _cells(numbers: Sequence[int]) -> str:
    """`cell 3`, or `cells 1-4, 6`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    text = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
    return f"{'cells' if len(numbers) > 1 else 'cell'} {text}"
