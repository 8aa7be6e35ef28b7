"""The cells of a run, from its events: what was executed, what came of it, and what of that is in the kernel now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codeact import events
from sandbox import CellResult

REPEATABLE = ("ok", "error")
"""What a cell can be executed again for: it ran to its own end, and left what its code says. A cell that was stopped left
what it had come to."""


@dataclass(frozen=True, slots=True)
class Past:
    """A cell that ended. `result` is None where only its being `ok` is recorded; `network`: it used the network. `answers` are
    those that it gave and that were accepted."""

    number: int
    turn: int
    source: str
    result: CellResult | None
    network: bool = False
    answers: tuple[events.AnswerGiven, ...] = ()

    @property
    def status(self) -> str:
        return "ok" if self.result is None else self.result.status

    @property
    def repeatable(self) -> bool:
        return self.status in REPEATABLE and (self.result is None or self.result.lost is None)

    @property
    def seconds(self) -> float:
        return 0.0 if self.result is None else self.result.seconds


@dataclass(frozen=True, slots=True)
class History:
    """`cells` are all that ended, in order; `alive` those of which the state of the kernel is made."""

    cells: tuple[Past, ...]
    alive: tuple[Past, ...]


def history(log: Iterable[events.Event]) -> History:
    started: dict[int, str] = {}
    open_: list[int] = []
    networked: set[int] = set()
    answers: dict[int, list[events.AnswerGiven]] = {}
    gone: set[int] = set()
    cells: list[Past] = []
    for event in log:
        match event:
            case events.Replied():
                open_ = []
            case events.CodeStarted():
                number = event.cell or max(started, default=0) + 1
                started[number], answers[number] = event.source, []
                gone.discard(number)
                if number not in open_:
                    open_.append(number)
            case events.ConnectionEnded() if open_:
                networked.add(open_[-1])
            case events.AnswerGiven(accepted=True) if open_:
                answers[open_[-1]].append(event)
            case events.Observed(cell=CellResult() as last):
                known = [*event.earlier, last]
                results = [*[None] * (len(open_) - len(known)), *known]
                cells += [
                    Past(
                        number,
                        event.turn,
                        started[number],
                        result,
                        number in networked,
                        tuple(answers[number]),
                    )
                    for number, result in zip(open_, results, strict=False)
                ]
                open_ = []
            case events.SandboxRestarted():
                gone |= set(started) - set(event.restored)
    return History(tuple(cells), tuple(cell for cell in cells if cell.number not in gone))
