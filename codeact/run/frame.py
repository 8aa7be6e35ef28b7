"""The frame of a run: its sandbox and its record, opened, gone through, and closed with how it ended."""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from codeact import (
    artifacts,
    events,
    given,
    journal,
    manifest,
    tidying,
    workspace,
)
from codeact.answers import Answer
from codeact.errors import Answered, CodeActError, LimitReached, RunEnded, ToolError, UsageError
from codeact.given import Inputs
from codeact.recorded import RecordedCalls
from codeact.run import taking
from codeact.run.answering import Answering
from codeact.run.asking import Asking
from codeact.run.between import Between, Held, next_turn, of_tools
from codeact.run.calls import Calls
from codeact.run.cells import Cells
from codeact.run.history import history
from codeact.run.meter import Meter
from codeact.run.record import Record
from codeact.run.repeats import Repeats
from codeact.run.replay import Replay, compared
from codeact.run.restore import Restored, not_as_it_was
from codeact.run.resume import Standing
from codeact.run.setup import Setup
from codeact.run.started import started
from codeact.tools import crossing
from codeact.tools.context import RunContext
from codeact.tools.runner import ToolRunner
from codeact.types import Artifact, Model, Reading, Result, Usage
from sandbox import Connection, SandboxError
from sandbox.hostcalls import HostFunction, WithCall


class Run:
    """One run, and the steps that the agent's loop is made of. Its sandbox and its record are there within `opened`, and there
    it does one task after the other. Used by one thread at a time; `interrupt` may be called from any."""

    def __init__(
        self, setup: Setup, inputs: Inputs, user: RunContext, standing: Standing | None = None
    ) -> None:
        """`standing` is where a run that is carried on stands."""
        self._setup, self._inputs, self._standing = setup, inputs, standing
        self.id = standing.run if standing else journal.new_run_id()
        self.folder = standing.folder if standing else setup.runs / self.id
        self.first_turn = standing.turn if standing else 1
        self._pending = standing.pending if standing else None
        self._record = Record(self.id, self.folder)
        before = standing.usage if standing else Usage()
        self._meter = Meter(setup.limits, turns=self.first_turn - 1, usage=before)
        self._answering = Answering(setup.check, setup.style.said, self._record, small=setup.model.small)
        self._repeats = Repeats(small=setup.model.small)
        self._asking = Asking(setup.model, setup.style, self._record, self._meter, self._repeats)
        self.answer: Any = None
        """What the last task was answered with, as the user gets it."""
        self._reads = {tool.path for tool in setup.tools.tools if tool.policy.effects == "read"}
        self._recorded = RecordedCalls(standing.log if standing else (), reads=self._reads)
        self._tools = ToolRunner(
            setup.tools,
            run=self.id,
            emit=self._tool_event,
            recorded=self._recorded,
            first_call=1 + (standing.calls if standing else 0),
            made=standing.made if standing else None,
            context=user,
            encode=crossing.Encoder(self._store),
            left=self._meter.left,
        )
        self._meter.waited = lambda: self._tools.waited
        self._connections: deque[Connection] = deque()
        self._held = Held(self.folder)
        self._interrupt_cell: Callable[[], None] = lambda: None

    # -- the sandbox and the record ------------------------------------------------------------------------------

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The record and the sandbox, started, while this lasts. Of a run that is carried on, the state is not there yet.

        Raises UsageError for what cannot be given or recorded, and SandboxError; nothing is left then.
        """
        if self._standing is None:
            self._record.open()
        else:
            self._record.reopen(self._standing.size, self._standing.last, self._standing.log)
        tidying.in_background(self._setup.runs, self._setup.runs_size)
        try:
            self._hold()
            with self._sandbox():
                if self._standing is None and self._setup.style.code:
                    self._prepare()
                yield
        finally:
            self._tools.close()
            if self._record.begun:
                self._record.close()
            else:
                self._record.discard()

    def _hold(self) -> None:
        if self._standing is not None:
            self._held.files, self._held.values = self._standing.data, self._standing.given
        else:
            self._held.files, self._held.values = given.keep(self._inputs, self.folder)

    @contextmanager
    def _sandbox(self) -> Iterator[None]:
        """The sandbox and the cells in it; it is started where there is code to run."""
        functions: dict[str, HostFunction | WithCall] = {
            "final_answer": WithCall(self._answering.take),
            "names": lambda payload: self._cells.take_names(payload),
            taking.FUNCTION: WithCall(lambda call: self._cells.taking.take(call)),
        }
        if self._setup.tools.tools and self._setup.style.imports:
            functions[crossing.FUNCTION] = crossing.function(
                self._tools.call, lambda inside, target: box.get(inside, target)
            )
        box = self._setup.sandbox(
            inputs={**self._held.files, **given.in_sandbox(self._held.values)},
            functions=functions,
            on_connection=self._connections.append,
            label=self.id,
        )
        self._cells = Cells(
            self._setup,
            box,
            self._record,
            self._meter,
            self._answering,
            self._connections,
            self._tools,
            self._recorded,
            self._repeats,
        )
        self._calls = Calls(
            self._setup,
            self._cells,
            self._record,
            self._meter,
            self._answering,
            self._tools,
            self._recorded,
            self._repeats,
        )
        self._between = Between(box, self._cells, self._record, self._held, self._reads)
        self._box, self._interrupt_cell = box, self._cells.interrupt
        if self._standing is not None:
            self._record.log = list(self._standing.log)
            if self._standing.guess is not None:
                self._answering.guess = self._again(self._standing.guess)
            self._cells.stand(self._standing)
        with box if self._setup.style.code else nullcontext():
            yield

    def _prepare(self) -> None:
        lines = {name: given.line(name, path) for name, path in self._held.values.items()}
        self._cells.described = workspace.prepare(
            self._box,
            list(self._held.files),
            self._cells.modules,
            imports=self._cells.imports,
            given=lines,
            typed=self._setup.check.typed,
        )
        self._cells.loaded = [*lines.values(), *manifest.loaded_lines(self._cells.described)]

    # -- tasks -----------------------------------------------------------------------------------------------------

    def play(self, task: str, turns: Iterator[events.Event]) -> Iterator[events.Event]:
        """One task: goes through the turns, and ends with `RunEnded`, however they end."""
        yield self.emit(started(task, self._setup, self._held, self._box, self._cells))
        yield from self._to_the_end(turns)

    def expect(self) -> None:
        """A task is to be done as soon as may be: an interrupt from here on is meant for it."""
        self._meter.forget()

    def play_next(self, task: str, turns: Iterator[events.Event]) -> Iterator[events.Event]:
        """As `play`, for each task of a session: those after the first go on from what there is. Limits count afresh."""
        log = self._record.log
        self.answer, self._record.ending, self._pending = None, False, None
        self.first_turn = next_turn(log)
        self._meter.renew(self.first_turn - 1)
        self._answering.renew()
        self._asking.renew()
        if not log:
            yield from self.play(task, turns)
            return
        news, self._between.news = self._between.news, ""
        text = "\n\n".join(filter(None, (news, f"Task: {task.strip()}")))
        yield self.emit(events.RunResumed(model=self._setup.model.name, task=task, text=text))
        yield from self._to_the_end(turns)

    def play_on(self, task: str | None, turns: Iterator[events.Event]) -> Iterator[events.Event]:
        """As `play`, for a run that is carried on: its state first, then the turns."""
        assert self._standing is not None
        yield from self._to_the_end(itertools.chain(self._resumed(self._standing, task), turns))

    def _resumed(self, standing: Standing, task: str | None) -> Iterator[events.Event]:
        past = history(standing.log)
        restored = self._cells.restore(past.alive, files=False) if self._setup.style.code else Restored()
        self._cells.keep_full_again(past.cells)
        if past.cells:
            yield from self._cells.told(restored, "the run was carried on", "the sandbox, with all in it")
        text = "\n\n".join(filter(None, (not_as_it_was(restored), task and f"Task: {task.strip()}")))
        yield self.emit(events.RunResumed(model=self._setup.model.name, task=task, text=text))
        if standing.answer is not None and task is None:
            raise Answered(answer=self._again(standing.answer))

    def _again(self, event: events.AnswerGiven) -> Answer:
        """An accepted answer of the record."""
        file = None if event.file is None else self.folder / event.file
        return self._setup.check.recorded(event.answer, file)

    @property
    def begun(self) -> bool:
        """Whether it has a record."""
        return self._record.begun

    @property
    def model(self) -> str:
        """The name of its model."""
        return self._setup.model.name

    @property
    def between(self) -> Between:
        """What can be done between two tasks. Raises UsageError where no code is run, so that there is no kernel."""
        if not self._setup.style.code:
            raise UsageError(
                "the model of this session runs no code, so that there is no kernel: see run_python"
            )
        return self._between

    def use(self, model: Model) -> None:
        """Another model answers from here on."""
        self._setup = dataclasses.replace(self._setup, model=model)
        self._asking.use(model)
        self._answering.small = self._repeats.small = model.small
        self._cells.use(self._setup)
        self._calls.use(model)

    @property
    def usage(self) -> Usage:
        """Of the whole run so far."""
        if not self.begun:  # it may not be open yet
            return self._meter.usage
        return self._meter.usage + self._between.undone + of_tools(self._record.log)

    def replay(self) -> Replay:
        """Executes the cells of a recorded run again, compares, and records nothing."""
        assert self._standing is not None
        cells = history(self._standing.log).cells
        self._hold()
        try:
            with self._sandbox():
                restored = self._cells.restore(cells, files=False) if cells else Restored()
        finally:
            self._tools.close()
        return compared(self._standing, cells, restored)

    @property
    def shown(self) -> bool:
        """Whether it is to draw itself in a notebook."""
        return self._setup.show

    def result(self, seen: Sequence[events.Event]) -> Result[Any]:
        """What the events of one task, the last of which is its end, come to."""
        ended = seen[-1]
        assert isinstance(ended, events.RunEnded)
        return Result(
            answer=self.answer,
            status=ended.status,
            run=ended.run,
            usage=ended.usage,
            artifacts=ended.artifacts,
            error=ended.error,
            seconds=ended.seconds,
            events=tuple(seen),
            folder=self.folder,
        )

    def _store(self, file: Path, inside: str) -> None:
        """A result that is too large for a call, as a file of the workspace. Raises ToolError where there is none."""
        if not self._setup.style.code:
            raise ToolError("the result is too large to be returned; ask for less of it")
        self._box.put(file, inside)

    def _tool_event(self, event: events.Event) -> events.Event:
        """Records an event of a tool: a call with effects is on the disk before it is made."""
        if self._cells.restoring:
            return event
        return self._record.post(
            event, sync=isinstance(event, events.ToolCalled) and event.tool not in self._reads
        )

    def _to_the_end(self, turns: Iterator[events.Event]) -> Iterator[events.Event]:
        failure: Exception | None = None
        try:
            yield from turns
            raise AssertionError("the turns ended without saying how")
        except RunEnded as end:
            ended = end
            if isinstance(end, LimitReached):
                yield self.emit(events.LimitReached(limit=end.limit, value=end.value))
        except (CodeActError, SandboxError) as error:
            self._record.ending = True
            yield self.emit(events.Error(kind=type(error).__name__, message=str(error)))
            ended, failure = RunEnded(str(error)), error
        except Exception as error:  # noqa: BLE001 - raised below: also of a fault of ours the record says how it ended
            self._record.ending = True
            self._answering.renew()
            yield self.emit(events.Error(kind=type(error).__name__, message=str(error)))
            ended, failure = RunEnded(f"{type(error).__name__}: {error}"), error
        self._record.ending = True
        if not isinstance(ended, Answered) and (left := self._answering.left) is not None:
            ended, failure = Answered(answer=left), None
        answer = ended.answer
        self.answer = None if answer is None else answer.value
        self._box.end_connections()
        yield from self._cells.beside()
        kept, problems = self._collect()
        for problem in problems:
            kind = "ArtifactLost" if "cannot be written" in problem else "FileError"
            yield self.emit(events.Error(kind=kind, message=problem))
        yield self.emit(
            events.RunEnded(
                status=ended.status,  # type: ignore[arg-type]
                answer=None if answer is None else answer.shown,
                usage=self.usage,
                seconds=self._meter.seconds,
                artifacts=tuple(kept),
                error=str(ended) or None,
            )
        )
        if failure is not None:
            raise failure

    def _collect(self) -> tuple[list[Artifact], list[str]]:
        target = self._setup.out or self.folder / artifacts.FOLDER
        try:
            kept, problems = artifacts.collect(self._box, target)
        except SandboxError:  # it is gone, and what it held with it
            kept, problems = [], []
        return [*kept, *self._record.figures], problems

    def interrupt(self, end: str = "") -> None:
        """Ends what is under way; with `end`, called once more, or before the first turn, the run. From any thread."""
        self._meter.ended = self._meter.ended or end
        self._meter.interrupts += 1
        self._asking.interrupt()
        self._tools.interrupt()
        self._interrupt_cell()
        self._record.on_post()  # whoever waits looks again

    # -- the steps of a turn -------------------------------------------------------------------------------------

    def emit(self, event: events.Event) -> events.Event:
        return self._record.emit(event)

    def check_limits(self, turn: int) -> None:
        """Raises LimitReached, or Interrupted when the person said so twice, or before the first turn."""
        self._meter.check(turn, first=turn == self.first_turn)

    def ask(self, turn: int) -> Generator[events.Event, None, Reading]:
        """Asks the model and reads its reply, unless there is one from before the run was cut off."""
        pending, self._pending = self._pending, None
        return pending if pending is not None else (yield from self._asking.ask(turn))

    def execute(self, turn: int, reading: Reading) -> Iterator[events.Event]:
        """Does what a reply says. Raises Answered when it gave the answer."""
        if reading.calls:
            return self._calls.execute(turn, reading)
        return self._cells.execute(turn, reading)

    def observe(self, turn: int, text: str) -> events.Event:
        return self._cells.observe(turn, text)

    def take_words(self, turn: int, text: str) -> Iterator[events.Event]:
        """A reply without code. Raises Answered when it is taken for the answer."""
        unfounded = (
            bool(self._held.files or self._held.values) and not self._cells.ran and not self._calls.made
        )
        for step in self._answering.in_words(text, unfounded=unfounded):
            if isinstance(step, str):
                self._repeats.seen(text, step)
                yield self.observe(turn, step)
                self._repeats.check()
            else:
                yield step
