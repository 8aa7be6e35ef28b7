"""Between the tasks of a session: data given, variables taken, the last task undone."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeact import artifacts, context, events, given, inputs, manifest, workspace
from codeact.data import left_behind
from codeact.errors import UsageError
from codeact.given import Inputs
from codeact.run.cells import Cells
from codeact.run.history import Past, history
from codeact.run.record import Record
from codeact.run.restore import Restored, not_as_it_was
from codeact.run.resume import given_files
from codeact.types import Usage
from sandbox import CellResult, Sandbox


@dataclass(slots=True)
class Held:
    """What a run has as data before its first task: files by their name in the sandbox, values by that of their variable."""

    folder: Path
    files: Mapping[str, Path] = field(default_factory=dict)
    values: Mapping[str, Path] = field(default_factory=dict)

    def recorded(self) -> dict[str, Any]:
        return recorded(self.folder, self.files, self.values)


def recorded(folder: Path, files: Mapping[str, Path], values: Mapping[str, Path]) -> dict[str, Any]:
    """Data as the record names it."""
    return {
        "data": {name: str(path.absolute()) for name, path in files.items()},
        "inputs": {name: inputs.fingerprint(path) for name, path in files.items()},
        "given": {name: path.relative_to(folder).as_posix() for name, path in values.items()},
    }


@dataclass(frozen=True, slots=True)
class Undoing:
    """`standing` are the tools whose effects stand, though the task that called them was undone."""

    restored: Restored
    standing: tuple[str, ...]


class Between:
    """`reads` are the tools that change nothing. `news` is what the model is to be told with the next task, `undone` what
    the tools of undone tasks used."""

    def __init__(self, box: Sandbox, cells: Cells, record: Record, held: Held, reads: Container[str]) -> None:
        self._box, self._cells, self._record, self._held, self._reads = box, cells, record, held, reads
        self.news = ""
        self.undone = Usage()

    def get(self, name: str) -> Any:
        """The value of a variable. Raises UsageError or SandboxError."""
        self._revive()
        return self._cells.taking.get(name)

    def variables(self) -> Mapping[str, str]:
        """What the kernel has, and what each is. Raises SandboxError."""
        self._revive()
        return self._cells.variables()

    def put(self, data: Mapping[str, Any]) -> str:
        """Gives the kernel more data, as `data` of a task does; what the model is told of it.

        Raises UsageError or SandboxError; nothing is recorded then.
        """
        new = Inputs.of(data)
        for name in new.files:
            if name in self._files(self._record.log):
                raise UsageError(f"{name}: there is such a file in data/ already; give this one another name")
        self._revive()
        files, values = given.keep(new, self._held.folder)
        for name, path in (files | given.in_sandbox(values)).items():
            self._box.add_input(name, path)
        lines = {name: given.line(name, path) for name, path in values.items()}
        described = workspace.describe(self._box, list(files), lines)
        code, text = [*lines.values(), *manifest.loaded_lines(described)], manifest.render(described)
        if self._record.log:
            problems = [*manifest.problems(described), *left_behind(files)]
            self._record_data(files, values, "\n".join(code), text, problems)
        else:
            self._held.files = {**self._held.files, **files}
            self._held.values = {**self._held.values, **values}
            self._cells.loaded = [*self._cells.loaded, *code]
            self._cells.described = manifest.merged(self._cells.described, described)
        return text

    def _record_data(
        self,
        files: Mapping[str, Path],
        values: Mapping[str, Path],
        code: str,
        text: str,
        problems: Sequence[str],
    ) -> None:
        """As a turn whose code is the user's, so that it is made again in its place."""
        turn = next_turn(self._record.log)
        self._record.emit(events.TurnStarted(turn=turn))
        known = recorded(self._held.folder, files, values)
        self._record.emit(events.DataGiven(**known, problems=tuple(problems)))
        done = []
        if code:
            self._cells.count += 1
            done = [Past(self._cells.count, turn, code, CellResult("ok"))]
            self._record.emit(events.CodeStarted(turn=turn, source=code, cell=self._cells.count))
        self._cells.observe(turn, f"{context.follow_ups()['given']}\n{text}", done)

    def _files(self, log: Iterable[events.Event]) -> dict[str, Path]:
        """The files in `data/`, by name: those given first and, by this record, later."""
        later = (event.data for event in log if isinstance(event, events.DataGiven))
        return {**self._held.files, **{name: Path(path) for each in later for name, path in each.items()}}

    def undo(self) -> Undoing:
        """Goes back to before the last task: neither the model nor the kernel knows of it any more. The sandbox is a fresh one, in
        which what was done before is done again; calls of tools are answered from the record. What they did stands.

        Raises UsageError where no task was done, or SandboxError.
        """
        log = self._record.log
        since = max((event.seq for event in log if _is_task(event)), default=0)
        if not since:
            raise UsageError("there is nothing to undo: no task was done yet")
        files = self._files(event for event in log if event.seq < since)
        for path in files.values():
            if not path.exists():
                raise UsageError(f"{path}: is gone, and without it nothing can be undone; put it back")
        self._record.emit(events.Undone(since=since))
        undone = [event for event in log if event.seq >= since]
        self._record.take_back(since)
        self.undone += of_tools(undone)
        first = self._held.recorded()["given"]
        values = given_files(self._held.folder, first, self._record.log)
        self._box.restart({**files, **given.in_sandbox(values)})
        past = history(self._record.log)
        restored = self._cells.restore(past.alive, files=False)
        self._take_artifacts_back(undone)
        self._cells.count = len(past.cells)
        self._cells.keep_full_again(past.cells)
        self.news = not_as_it_was(restored)
        standing = {event.tool for event in undone if isinstance(event, events.ToolReturned) and event.ok}
        return Undoing(restored, tuple(sorted(tool for tool in standing if tool not in self._reads)))

    def _take_artifacts_back(self, undone: Iterable[events.Event]) -> None:
        """The run's own folder holds what its tasks handed over, as the sandbox has it now. A folder that was named for them is the
        person's, and stays as it is."""
        folder = self._held.folder / artifacts.FOLDER
        handed = [
            each.path for event in undone if isinstance(event, events.RunEnded) for each in event.artifacts
        ]
        ours = [path for path in handed if path.is_relative_to(folder)]
        for path in ours:
            path.unlink(missing_ok=True)
        if ours:
            artifacts.collect(self._box, folder)

    def _revive(self) -> None:
        """A kernel that is up, with the state that the tasks left."""
        for _ in self._cells.revived(()):
            pass


def next_turn(log: Iterable[events.Event]) -> int:
    return 1 + max((event.turn for event in log if isinstance(event, events.TurnStarted)), default=0)


def _is_task(event: events.Event) -> bool:
    """Whether a task begins with it."""
    return isinstance(event, events.RunStarted) or (
        isinstance(event, events.RunResumed) and event.task is not None
    )


def of_tools(log: Iterable[events.Event]) -> Usage:
    """What the calls of tools come to; those answered from the journal were counted when they were made."""
    made = [event for event in log if isinstance(event, events.ToolReturned) and not event.replayed]
    return Usage(tool_calls=len(made), tool_seconds=round(sum(event.seconds for event in made), 3))
