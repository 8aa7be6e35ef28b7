"""The frame of a run: its sandbox and its record, opened, gone through, and closed with how it ended."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import deque
from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from codeact import artifacts, context, events, inputs, journal, manifest, workspace
from codeact.errors import Answered, CodeActError, LimitReached, RunEnded
from codeact.recorded import RecordedCalls
from codeact.run.answering import Answering
from codeact.run.asking import Asking
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
from codeact.tools import crossing, prompt
from codeact.tools.context import RunContext
from codeact.tools.runner import ToolRunner
from codeact.types import Artifact, Reading, Usage
from sandbox import Connection, Sandbox, SandboxError
from sandbox.hostcalls import HostFunction, WithCall


class Run:
    """One run, and the steps that the agent's loop is made of. Used by one thread; `interrupt` may be called from any."""

    def __init__(
        self,
        setup: Setup,
        task: str | None,
        data: Mapping[str, Path],
        user: RunContext,
        standing: Standing | None = None,
    ) -> None:
        """`standing` is where a run that is carried on stands; `task` is a further one, then, or None."""
        self._setup, self._task, self._data, self._standing = setup, task, data, standing
        self.id = standing.run if standing else journal.new_run_id()
        self._folder = standing.folder if standing else setup.runs / self.id
        self.first_turn = standing.turn if standing else 1
        self._pending = standing.pending if standing else None
        self._record = Record(self.id, self._folder)
        before = standing.usage if standing else Usage()
        self._meter = Meter(setup.limits, turns=self.first_turn - 1, usage=before)
        self._answering = Answering(setup.check, setup.style.said, self._record)
        repeats = Repeats()
        self._asking = Asking(setup.model, setup.style, self._record, self._meter, repeats)
        connections: deque[Connection] = deque()
        reads = {tool.path for tool in setup.tools.tools if tool.policy.effects == "read"}
        recorded = RecordedCalls(standing.log if standing else (), reads=reads)
        self._tools = ToolRunner(
            setup.tools,
            run=self.id,
            emit=lambda event: self._tool_event(event, reads),
            recorded=recorded,
            first_call=1 + sum(isinstance(e, events.ToolCalled) for e in (standing.log if standing else ())),
            context=user,
            encode=crossing.Encoder(lambda file, inside: self._box.put(file, inside)),
            left=self._meter.left,
        )
        self._meter.waited = lambda: self._tools.waited
        functions: dict[str, HostFunction | WithCall] = {
            "final_answer": self._answering.take,
            "names": lambda payload: self._cells.take_names(payload),
        }
        if setup.tools.tools and setup.style.imports:
            functions[crossing.FUNCTION] = crossing.function(
                self._tools.call, lambda inside, target: self._box.get(inside, target)
            )
        if setup.pool is not None and setup.style.code:
            self._box = setup.pool.take(
                inputs=data, functions=functions, on_connection=connections.append, label=self.id
            )
        else:
            self._box = Sandbox(
                setup.image,
                limits=setup.sandbox_limits,
                timeout=setup.cell_timeout,
                inputs=data,
                functions=functions,
                backend=setup.backend,
                runtime=setup.runtime,
                network=setup.network,
                on_connection=connections.append,
                packages=setup.packages,
                on_progress=setup.on_progress,
                label=self.id,
            )
        self._cells = Cells(
            setup,
            self._box,
            self._record,
            self._meter,
            self._answering,
            connections,
            self._tools,
            recorded,
            repeats,
        )
        self._calls = Calls(
            setup, self._cells, self._record, self._meter, self._answering, self._tools, recorded, repeats
        )
        if standing is not None:
            self._record.log = list(standing.log)
            self._answering.guess = standing.guess
            self._cells.loaded = standing.loaded
            self._cells.count = len(history(standing.log).cells)
            self._cells.ran = self._cells.count > 0

    # -- from start to end ---------------------------------------------------------------------------------------

    def play(self, turns: Iterator[events.Event]) -> Iterator[events.Event]:
        """Starts the sandbox, goes through the turns, and ends with `RunEnded`, however they end."""
        with self._sandbox():
            if self._setup.style.code:
                self._cells.described = workspace.prepare(self._box, list(self._data), self._cells.modules)
                self._cells.loaded = manifest.loaded_lines(self._cells.described)
            self._record.open()
            try:
                yield self.emit(self._started())
                yield from self._to_the_end(turns)
            finally:
                self._tools.close()
                self._record.close()

    def _sandbox(self) -> AbstractContextManager[object]:
        """The sandbox, where there is code to run: else nothing is started."""
        return self._box if self._setup.style.code else nullcontext()

    def play_on(self, turns: Iterator[events.Event]) -> Iterator[events.Event]:
        """As `play`, for a run that is carried on: its state first, then the turns."""
        assert self._standing is not None
        self._record.reopen(self._standing.size)
        try:
            with self._sandbox():
                yield from self._to_the_end(itertools.chain(self._resumed(self._standing), turns))
        finally:
            self._tools.close()
            self._record.close()

    def _resumed(self, standing: Standing) -> Iterator[events.Event]:
        past = history(standing.log)
        restored = self._cells.restore(past.alive, files=False) if self._setup.style.code else Restored()
        self._cells.keep_full_again(cell.result for cell in past.cells if cell.result is not None)
        if past.cells:
            yield from self._cells.told(restored, "the run was carried on", "the sandbox, with all in it")
        text = "\n\n".join(
            filter(None, (not_as_it_was(restored), self._task and f"Task: {self._task.strip()}"))
        )
        yield self.emit(events.RunResumed(model=self._setup.model.name, task=self._task, text=text))
        if standing.answer is not None and self._task is None:
            raise Answered(answer=standing.answer[0])

    def replay(self) -> Replay:
        """Executes the cells of a recorded run again, compares, and records nothing."""
        assert self._standing is not None
        cells = history(self._standing.log).cells
        try:
            with self._sandbox():
                restored = self._cells.restore(cells, files=False) if cells else Restored()
        finally:
            self._tools.close()
        return compared(self._standing, cells, restored, self._answering.again)

    def _tool_event(self, event: events.Event, reads: Container[str]) -> events.Event:
        """Records an event of a tool: a call with effects is on the disk before it is made."""
        if self._cells.restoring:
            return event
        return self._record.post(event, sync=isinstance(event, events.ToolCalled) and event.tool not in reads)

    def _started(self) -> events.RunStarted:
        setup = self._setup
        schema = json.dumps(setup.check.schema) if setup.check.schema else None
        text = manifest.render(self._cells.described) if self._data else ""
        settings = {
            "image": setup.image,
            "limits": dataclasses.asdict(setup.limits),
            "sandbox_limits": dataclasses.asdict(setup.sandbox_limits),
            "cell_timeout": setup.cell_timeout,
            "network": "none" if setup.network is None else str(setup.network),
            "packages": list(setup.packages),
            "actions": setup.style.name,
            "parallel_calls": not setup.style.one_call,
            "run_python": setup.style.code and not setup.style.imports,
            "tools": [tool.path for tool in setup.tools.tools],
            "sandbox": self._box.backend,
            "unenforced": dict(self._box.unenforced),
            "data": {name: str(path.absolute()) for name, path in self._data.items()},
            "inputs": {name: inputs.fingerprint(path) for name, path in self._data.items()},
            "loaded": list(self._cells.loaded),
            "runtime": setup.runtime,
            "output_schema": setup.check.schema,
            "on_death": setup.on_death,
            "started_with": setup.started_with,
            "out": str(setup.out) if setup.out else None,
        }
        return events.RunStarted(
            task=self._task or "",
            model=setup.model.name,
            settings=settings,
            system=self._rules(),
            first=context.first_text(self._task or "", text, schema),
        )

    def _rules(self) -> str:
        setup = self._setup
        where = ""
        if setup.style.code:
            installed = workspace.described(setup.image, setup.packages)
            where = context.where_text(installed, workspace.network(setup.network))
        tools = prompt.describe(setup.tools.tools) if setup.style.imports else ""
        return context.system_text(setup.style.how, where, tools)

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
        self._record.ending = True
        if not isinstance(ended, Answered) and self._answering.guess is not None:
            ended, failure = Answered(answer=self._answering.guess), None
        self._box.end_connections()
        yield from self._cells.beside()
        kept, problems = self._collect()
        for problem in problems:
            kind = "ArtifactLost" if "cannot be written" in problem else "FileError"
            yield self.emit(events.Error(kind=kind, message=problem))
        yield self.emit(
            events.RunEnded(
                status=ended.status,  # type: ignore[arg-type]
                answer=ended.answer,
                usage=self._meter.usage + _of_tools(self._record.log),
                seconds=self._meter.seconds,
                artifacts=tuple(kept),
                error=str(ended) or None,
            )
        )
        if failure is not None:
            raise failure

    def _collect(self) -> tuple[list[Artifact], list[str]]:
        target = self._setup.out or self._folder / "artifacts"
        try:
            kept, problems = artifacts.collect(self._box, target)
        except SandboxError:  # it is gone, and what it held with it
            kept, problems = [], []
        return [*kept, *self._record.figures], problems

    def interrupt(self, end: str = "") -> None:
        """Ends what is under way; with `end`, or called once more, the run."""
        self._meter.ended = self._meter.ended or end
        self._meter.interrupts += 1
        self._asking.interrupt()
        self._tools.interrupt()
        self._box.interrupt()

    # -- the steps of a turn -------------------------------------------------------------------------------------

    def emit(self, event: events.Event) -> events.Event:
        return self._record.emit(event)

    def check_limits(self, turn: int) -> None:
        """Raises LimitReached, or Interrupted when the person said so twice."""
        self._meter.check(turn)

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
        unfounded = bool(self._data) and not self._cells.ran and not self._calls.made
        for step in self._answering.in_words(text, unfounded=unfounded, small=self._setup.model.small):
            yield self.observe(turn, step) if isinstance(step, str) else step


def _of_tools(log: Iterable[events.Event]) -> Usage:
    """What the calls of tools come to; those answered from the journal were counted when they were made."""
    made = [event for event in log if isinstance(event, events.ToolReturned) and not event.replayed]
    return Usage(tool_calls=len(made), tool_seconds=round(sum(event.seconds for event in made), 3))
