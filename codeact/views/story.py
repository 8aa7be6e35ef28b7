"""A run as a reader follows it: turns, the code of each, and what came of it. Made from events, recorded or as they come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from codeact import events
from codeact.types import Artifact, Usage
from codeact.views.calls import change
from codeact.views.pieces import Coming, Draft
from sandbox.types import CellResult


@dataclass(slots=True)
class ToolCall:
    """One call of a tool. `arguments` are those that it was made with; `first` is what those that a person
    changed were before. `ok` is None where no end is recorded."""

    tool: str
    arguments: dict[str, Any]
    first: dict[str, Any] = field(default_factory=dict)
    ok: bool | None = None
    value: Any = None
    error: str = ""
    seconds: float = 0.0
    waited: float = 0.0
    refused: str = ""
    """Why a person or a rule refused it."""


@dataclass(slots=True)
class Cell:
    """Code that was executed. `result` is None where none is recorded; `images` are files in the run's folder; `number` is that
    of its event, 0 where none is recorded."""

    source: str
    number: int = 0
    result: CellResult | None = None
    images: tuple[str, ...] = ()
    calls: list[ToolCall] = field(default_factory=list)
    coming: Coming = field(default_factory=Coming)


@dataclass(slots=True)
class Turn:
    """`remarks` are what the run itself had to say: retries, refusals, restarts, replies that could not be read."""

    number: int
    thoughts: str = ""
    cells: list[Cell] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    """Those that the model made itself, and no code."""
    remarks: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model_seconds: float = 0.0
    draft: Draft = field(default_factory=Draft)

    @property
    def code_seconds(self) -> float:
        return sum(cell.result.seconds for cell in self.cells if cell.result)


@dataclass(slots=True)
class Task:
    """What was asked, and what came of it. `status` is `unfinished` where no end is recorded; `remarks` are those of before the
    first turn. `text` is empty where it is not known: of a run that is carried on, for those who did not see it begin."""

    text: str = ""
    remarks: list[str] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    status: str = "unfinished"
    answer: Any = None
    error: str | None = None


@dataclass(slots=True)
class Story:
    """`tasks` are those that the run did one after the other, at least one. `started` is in seconds since the epoch."""

    run: str = ""
    model: str = ""
    started: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    first: str = ""
    problems: list[str] = field(default_factory=list)
    """What is wrong with the data."""
    data: dict[str, str] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    """Files in the run's folder with values that became variables."""
    tasks: list[Task] = field(default_factory=lambda: [Task()])
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    artifacts: tuple[Artifact, ...] = ()

    @property
    def last(self) -> Task:
        return self.tasks[-1]

    @property
    def turns(self) -> list[Turn]:
        """Of all tasks."""
        return [turn for task in self.tasks for turn in task.turns]


def tell(log: Iterable[events.Event]) -> Story:
    """The story of a run's events, as far as they go."""
    teller = Teller()
    for event in log:
        teller.add(event)
    return teller.story


class Teller:
    """Adds to a story event by event."""

    def __init__(self) -> None:
        self.story = Story()
        self._calls: dict[str, ToolCall] = {}
        self._keys: dict[str, ToolCall] = {}
        self._cut_off: dict[int, Cell] = {}
        self._seconds = 0.0
        """Of all times that the run ended: each has its own."""

    def add(self, event: events.Event) -> None:
        story, calls = self.story, self._calls
        turn = _turn(story)
        match event:
            case events.RunStarted():
                story.run, story.started, story.last.text = event.run, event.time, event.task
                story.model, story.settings, story.first = event.model, event.settings, event.first
                story.problems = list(event.problems)
                story.data, story.given = (
                    dict(event.settings.get("data") or {}),
                    _files(event.settings.get("given")),
                )
            case events.DataGiven():
                story.problems += event.problems
                story.data |= event.data
                story.given += _files(event.given)
            case events.RunResumed():
                story.run, story.model = event.run, event.model
                _go_on(story, event.task)
            case events.TurnStarted() if turn.number == event.turn and all(
                cell.result is None for cell in turn.cells
            ):
                pass  # begun again after the run was cut off
            case events.TurnStarted():
                story.last.turns.append(Turn(event.turn))
            case events.TextDelta():
                turn.draft.add(event.text, event.kind)
            case events.OutputDelta() if turn.cells:
                turn.cells[-1].coming.add(event.output)
            case events.Replied():
                turn.draft = Draft()
                turn.thoughts = event.reading.thoughts
                turn.usage += event.usage
                turn.model_seconds += event.seconds
            case events.CodeStarted():
                self._start(turn, event)
            case events.Observed(cell=None, results=()):
                turn.remarks.append(event.text)
            case events.Observed():
                turn.remarks += [
                    f"{each.name} was not called: {each.text}" for each in event.results if not each.made
                ]
                if event.cell is not None:
                    cell = turn.cells[-1] if turn.cells else Cell("")
                    cell.result, cell.images = event.cell, event.images
                    for before, result in zip(turn.cells[: len(event.earlier)], event.earlier, strict=False):
                        before.result = result
            case events.ToolCalled():
                self._call(turn, event)
            case events.ToolReturned():
                _end_call(calls.get(event.call), event)
            case events.ApprovalGiven(allowed=True, arguments=dict(changed)) if event.call in calls:
                change(calls[event.call], changed)
            case events.ApprovalGiven(allowed=False):
                _refuse_call(calls, turn, event)
            case events.Retrying():
                turn.draft = Draft()
                turn.remarks.append(f"The model did not answer (attempt {event.attempt}): {event.reason}")
            case events.SandboxRestarted():
                turn.remarks.append(f"The sandbox was started afresh: {event.reason}; lost: {event.lost}")
                turn.remarks += event.differences
                if event.names:
                    turn.remarks.append(f"Missing variables: {', '.join(event.names)}")
            case events.AnswerGiven(accepted=False):
                turn.remarks.append(f"The answer was refused: {event.problem}")
            case events.LimitReached():
                turn.remarks.append(f"The limit of {event.value:,.10g} {event.limit} was reached")
            case events.Error():
                turn.remarks.append(event.message)
            case events.RunEnded():
                task = story.last
                task.status, task.answer, task.error = event.status, event.answer, event.error
                self._seconds += event.seconds
                story.usage, story.seconds, story.artifacts = event.usage, self._seconds, event.artifacts
        if story.last.status == "unfinished":
            story.usage = sum((turn.usage for turn in story.turns), Usage())
            story.seconds = sum(turn.model_seconds + turn.code_seconds for turn in story.turns)

    def _start(self, turn: Turn, event: events.CodeStarted) -> None:
        """A cell that was cut off and starts once more stands once. Its calls stay: one that ended is not called anew."""
        cut = [cell for cell in turn.cells if cell.result is None and 0 < event.cell <= cell.number]
        self._cut_off |= {cell.number: cell for cell in cut}
        turn.cells = [cell for cell in turn.cells if cell not in cut]
        former = self._cut_off.pop(event.cell, None)
        turn.cells.append(Cell(event.source, event.cell, calls=former.calls if former else []))

    def _call(self, turn: Turn, event: events.ToolCalled) -> None:
        call = self._calls[event.call] = ToolCall(event.tool, event.arguments)
        if event.cell and not turn.cells:
            return
        siblings = turn.cells[-1].calls if event.cell else turn.calls
        former = self._keys.get(event.key)
        # with the key of one whose end is not known, it is that one, called again
        siblings[:] = [each for each in siblings if each is not former]
        siblings.append(call)
        if event.key:
            self._keys[event.key] = call


def _turn(story: Story) -> Turn:
    """The turn that an event belongs to. Before there is any, one that is not told, but for its remarks."""
    turns = story.turns
    return turns[-1] if turns else Turn(0, remarks=story.last.remarks)


def _go_on(story: Story, text: str | None) -> None:
    """With the last task; or with a further one, unless the story begins with it."""
    task = story.last
    if text is None:
        task.status, task.error = "unfinished", None
    elif task.text or task.turns:
        story.tasks.append(Task(text))
    else:
        task.text = text


def _files(given: Any) -> list[str]:
    return [str(file) for file in given.values()] if isinstance(given, dict) else []


def _end_call(call: ToolCall | None, event: events.ToolReturned) -> None:
    if call is None:
        return
    call.ok, call.value = event.ok, event.value
    call.seconds, call.waited = event.seconds, event.waited
    if event.error:
        call.error = ": ".join(str(part) for part in event.error.values())


def _refuse_call(calls: dict[str, ToolCall], turn: Turn, event: events.ApprovalGiven) -> None:
    reason = event.reason or f"refused by {event.by}"
    if event.call in calls:
        calls[event.call].refused = reason
    else:  # what is refused is not executed, and may never have been recorded as called
        turn.remarks.append(f"The call of {event.tool} was refused: {reason}")


def pictures(cell: Cell) -> dict[tuple[int, str], str]:
    """The files that the pictures of a cell's outputs are kept in, by index of the output and MIME type."""
    names = iter(cell.images)
    found: dict[tuple[int, str], str] = {}
    for index, output in enumerate(cell.result.outputs if cell.result else ()):
        for mime in ("image/png", "image/jpeg"):
            data = getattr(output, "data", {})
            if mime in data and (name := next(names, None)) is not None:
                found[index, mime] = name
    return found


def plain_settings(story: Story) -> dict[str, Any]:
    """The settings by dotted name, for display."""
    shown: dict[str, Any] = {}
    for name, value in story.settings.items():
        if isinstance(value, dict):
            shown.update({f"{name}.{key}": part for key, part in value.items()})
        else:
            shown[name] = value
    return shown
