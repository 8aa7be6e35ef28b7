"""Where a run stands, from its journal: what a process needs to know to carry it on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeact import events, inputs, journal
from codeact.errors import UsageError
from codeact.types import Reading, Usage


@dataclass(frozen=True, slots=True)
class Standing:
    """`turn` is the next one. `pending` is its reply, where that was read already. `answer` is an accepted one with which
    the run was about to end; `guess` one in words that was asked about."""

    folder: Path
    log: Sequence[events.Event]
    started: events.RunStarted
    turn: int
    pending: Reading | None
    answer: events.AnswerGiven | None
    guess: events.AnswerGiven | None
    usage: Usage
    ended: events.RunEnded | None
    calls: int
    """The number of the last call of a tool. One that was answered from the record when code ran again has a number too, and is
    recorded nowhere."""
    made: Mapping[str, int]
    """How often each tool was called and was not refused."""
    last: int
    """The number of the last event."""
    size: int
    """Of the journal when it was read, in bytes: it is locked only later."""

    @property
    def run(self) -> str:
        return self.folder.name

    @property
    def data(self) -> dict[str, Path]:
        return {name: Path(path) for name, path in self._of_all("data").items()}

    @property
    def inputs(self) -> dict[str, Any]:
        """What the files of the data were known by."""
        return self._of_all("inputs")

    @property
    def given(self) -> dict[str, Path]:
        """The files of values that became variables, by the names that the files have."""
        return given_files(self.folder, self.started.settings.get("given", {}), self.log)

    def _of_all(self, field: str) -> dict[str, Any]:
        """What was given at first, and later."""
        later = (getattr(event, field) for event in self.log if isinstance(event, events.DataGiven))
        found: dict[str, Any] = {}
        for each in (self.started.settings.get(field, {}), *later):
            found |= each
        return found

    @property
    def loaded(self) -> list[str]:
        return [str(line) for line in self.started.settings.get("loaded", ())]


def standing(run: Path) -> Standing:
    """Reads the journal of a run, given by its folder or its file. Raises UsageError for one that cannot be carried on."""
    folder = run if run.is_dir() else run.parent
    size = (folder / journal.FILE if run.is_dir() else run).stat().st_size
    whole = journal.load(run)
    log = events.standing(whole)
    if not log or not isinstance(log[0], events.RunStarted):
        raise UsageError(
            f"{folder.name or run}: the run ended before it began; start it again with `codeact solve`"
        )
    turn = 1
    pending: Reading | None = None
    given: events.AnswerGiven | None = None
    answer: events.AnswerGiven | None = None
    guess: events.AnswerGiven | None = None
    ended: events.RunEnded | None = None
    for event in log:
        match event:
            case events.TurnStarted():
                if event.turn != turn:  # else it was begun again
                    turn, pending = event.turn, None
                given = None
            case events.Replied():
                pending = event.reading
            case events.AnswerGiven(accepted=True):
                given = event
            case events.Observed():
                turn, pending = event.turn + 1, None
                acted = event.cell is not None or bool(event.results)
                answer = given if acted else None
                guess = given if given and not acted else guess
                given = None
            case events.RunEnded():
                if event.status == "answered":
                    turn, pending = turn + (pending is not None), None
                ended, answer, guess = event, None, None
            case events.RunResumed():
                ended = None
    usage = sum((event.usage for event in whole if isinstance(event, events.Replied)), Usage())
    calls = max((_number(event.call) for event in whole if isinstance(event, events.ToolCalled)), default=0)
    made = Counter(
        event.tool
        for event in whole
        if isinstance(event, events.ToolReturned) and event.attempts and not event.replayed
    )
    last = max(event.seq for event in whole)
    return Standing(folder, log, log[0], turn, pending, answer, guess, usage, ended, calls, made, last, size)


def _number(call: str) -> int:
    """Of `c12` the 12; 0 where a journal has another name."""
    return int(call[1:]) if call[1:].isdecimal() else 0


def given_files(folder: Path, first: Mapping[str, str], log: Iterable[events.Event]) -> dict[str, Path]:
    """The files of values, those given first and those of a log: all of them, for code may use one that another took the
    variable of."""
    later = (event.given for event in log if isinstance(event, events.DataGiven))
    return {Path(file).stem: folder / file for each in (first, *later) for file in each.values()}


def check_given(given: Mapping[str, Path]) -> None:
    """Raises UsageError that names a value whose file is gone."""
    for name, path in given.items():
        if not path.is_file():
            raise UsageError(f"{path}: is not there any more, and held the data {name!r}; put it back")


def check_data(data: Mapping[str, Path], recorded: Mapping[str, Any], *, changed: bool) -> None:
    """Raises UsageError that names the data which is not what it was; with `changed`, only what is not there."""
    for name, path in data.items():
        what = inputs.change(path, recorded.get(name))
        if what is not None and not (changed and path.exists()):
            mend = "put it back" + (
                ", or give --changed-data to go on with what is there" if path.exists() else ""
            )
            raise UsageError(f"{path}: {what}; {mend}")
