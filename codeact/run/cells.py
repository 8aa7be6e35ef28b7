"""Executing the code of a reply, and observing what it did."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from codeact import context, events, observation, unseen, workspace
from codeact.errors import Answered
from codeact.pump import Late, Pump
from codeact.recorded import RecordedCalls
from codeact.run.answering import Answering
from codeact.run.hints import hints, told
from codeact.run.history import Past, history
from codeact.run.meter import Meter
from codeact.run.record import Record
from codeact.run.repeats import Repeats
from codeact.run.restore import Restored, Restorer, words
from codeact.run.resume import Standing
from codeact.run.setup import Setup
from codeact.run.taking import Taking
from codeact.tools import prompt, stubs
from codeact.tools.runner import ToolRunner
from codeact.tools.tool import Tool
from codeact.types import Reading
from sandbox import CellResult, Connection, Notice, Output, Rung, Sandbox, SandboxError
from sandbox.cells import FLOODED, LOST_VARIABLES

CELL_NUMBER = re.compile(r"(?<=\bCell )\d+")
NOT_BEGUN = "the code was not run: the person said stop before it began"
AGAIN_SECONDS = 0.1
ANSWERS = re.compile(r"(?<!def )\bfinal_answer\(")
MAX_PICTURES = 8
"""Figures of one cell that are kept."""


class Cells:
    """The cells of one run. `described` is the manifest of its data, as it came from the sandbox."""

    def __init__(
        self,
        setup: Setup,
        box: Sandbox,
        record: Record,
        meter: Meter,
        answering: Answering,
        connections: deque[Connection],
        tools: ToolRunner,
        recorded: RecordedCalls,
        repeats: Repeats,
    ) -> None:
        self._setup, self._box, self._record, self._meter = setup, box, record, meter
        self._answering, self._connections = answering, connections
        self._tools, self._recorded, self._repeats = tools, recorded, repeats
        self._said = setup.style.said
        self._restorer = Restorer(
            box,
            set_up=self._set_up,
            begin=lambda cell: self._begin(cell, ended=True),
            end=self._end,
            answers=answering.again,
            same=record.is_same,
            stopped=lambda: meter.interrupts > self._interrupts_before,
        )
        self._interrupts_before = 0
        self._interruptible = False
        self.count = 0
        self.restoring = False
        self._names: Mapping[str, str] = {}
        self._told: list[str] = []
        self._asked_unseen = self._asked_uncalled = False
        self.ran = False
        self.taking = Taking(box)
        self.described: Any = None
        self.loaded: Sequence[str] = ()

    def stand(self, standing: Standing) -> None:
        """Where a run that is carried on stands."""
        self.loaded = standing.loaded
        self.count = len(history(standing.log).cells)
        self.ran = self.count > 0

    def use(self, setup: Setup) -> None:
        """Another model writes the cells from here on."""
        self._setup = setup

    def variables(self) -> Mapping[str, str]:
        """What the cells made, and what each is: the last 40."""
        self._names = {}
        self._box.run(f"import {workspace.PACKAGE}.telling as _telling; _telling.tell(); del _telling")
        return self._names

    # -- the code of a reply -------------------------------------------------------------------------------------

    def execute(self, turn: int, reading: Reading) -> Iterator[events.Event]:
        """Runs the actions of a reply up to the first that fails; ends the run when one of them gave the answer."""
        if self._setup.model.small and (doubt := self._doubt(reading)):
            yield self.observe(turn, doubt)
            return
        done: list[Past] = []
        texts: list[str] = []
        shown: list[str] = []
        for action in reading.actions:
            text, pictures = yield from self.run(turn, action.source, done)
            texts.append(text)
            shown += pictures
            if self._answering.given or done[-1].status != "ok":
                break
        output = "\n".join(f"Output:\n{text}" for text in texts)
        if self._answering.given:
            yield self.observe(turn, output, done, tuple(shown))
            raise Answered(answer=self._answering.last)
        follow_up = yield from self.follow_up(done, texts[-1])
        if len(texts) < len(reading.actions):
            follow_up = f"{self._said['more_blocks']} {follow_up}"
        notes = "".join(f"({note})\n" for note in reading.notes)
        yield self.observe(turn, f"{output}\n\n{notes}{follow_up}", done, tuple(shown))
        self._repeats.check()
        self._meter.check(turn)

    def run(
        self, turn: int, source: str, done: list[Past]
    ) -> Generator[events.Event, None, tuple[str, list[str]]]:
        """Runs one cell, and adds it to `done`, those of this turn; its observation, and the names of its pictures."""
        said = yield from self.revived(done)
        self.count += 1
        yield self._record.emit(events.CodeStarted(turn=turn, source=source, cell=self.count))
        cell = yield from self._run_cell(source, said)
        if cell.status == "refused" and cell.lost is not None:  # its kernel went before it began
            told = yield from self._after_death(_last_words(cell.outputs), cell.lost, done)
            cell = yield from self._run_cell(source, (*cell.outputs, Notice(told)))
        done.append(Past(self.count, turn, source, cell))
        yield from self._answering.told()
        return self._observed(cell)

    def follow_up(
        self, done: Sequence[Past], text: str, beside: str = ""
    ) -> Generator[events.Event, None, str]:
        """What is said after the last of the cells of a turn, which was observed as `text`. Where it took its kernel with
        it, there is a new one then. `beside` is what else was done in the turn."""
        cell = done[-1].result
        assert cell is not None
        self._meter.heed()  # if the person said stop: it is over, and what follows says so
        follow_up = self._follow_up(done[-1].source + beside, cell, text)
        if cell.lost is not None:
            follow_up = yield from self._after_death(_last_words(cell.outputs), cell.lost, done)
        return follow_up

    def observe(
        self,
        turn: int,
        text: str,
        done: Sequence[Past] = (),
        images: tuple[str, ...] = (),
        results: tuple[events.CallResult, ...] = (),
    ) -> events.Event:
        cells = [past.result for past in done if past.result is not None]
        cell, earlier = (cells[-1], tuple(cells[:-1])) if cells else (None, ())
        return self._record.emit(
            events.Observed(turn=turn, text=text, cell=cell, images=images, earlier=earlier, results=results)
        )

    def _doubt(self, reading: Reading) -> str | None:
        """What a small model is asked, once, about an answer that cannot come from anywhere: a constant that it was never shown,
        or whatever it computes where the task is about tools and none was called."""
        source = "\n".join(action.source for action in reading.actions)
        if not self._asked_unseen and len(reading.actions) == 1:
            invented = unseen.made_up(source, self.shown(), begun=self.ran)
            self._asked_unseen = invented is not None
            if invented is not None:
                return self._said["unseen"].format(value=invented)
        if not self._asked_uncalled and self._without_tools(source):
            self._asked_uncalled = True
            return self._said["not_called"]
        return None

    def _without_tools(self, source: str) -> bool:
        """Whether code answers though there is nothing but tools to find an answer with, and neither it nor any before calls one."""
        tools = self._tools_inside
        if not tools or self.loaded or self.described is not None or not ANSWERS.search(source):
            return False
        if any(isinstance(event, events.ToolCalled) for event in self._record.log):
            return False
        return not {"tools", *(tool.name for tool in tools)}.intersection(re.findall(r"\w+", source))

    def shown(self) -> list[str]:
        """What the model was shown so far, but its rules."""
        messages = context.keep_all(self._record.log, {}, self._setup.style.example, self._setup.style.plain)
        return [message.content for message in messages if message.role in ("user", "tool")]

    # -- one cell ------------------------------------------------------------------------------------------------

    def _run_cell(self, source: str, said: Sequence[Output]) -> Generator[events.Event, None, CellResult]:
        """Runs one cell; `said` goes before what it writes. Where the person said stop meanwhile, it is not begun."""
        if self._meter.unheeded:
            return CellResult("interrupted", (*said, Notice(NOT_BEGUN)))
        left = self._meter.left()
        timeout = self._setup.cell_timeout if left is None else min(self._setup.cell_timeout, max(left, 1.0))
        self._names, self._told = {}, []
        self.ran = True
        longest = math.inf if left is None else left
        outputs = self._box.stream(source, timeout=timeout, max_timeout=longest, afresh=False)
        self._begin(self.count, ended=False)  # before the pump runs it: its first call may come at once
        pump: Pump[Output | CellResult | None] = Pump(_to_the_end(outputs))
        self._record.on_post = lambda: pump.add(None)
        try:
            yield from self.beside()  # what came before anybody was told of it
            while not isinstance(item := self._next(pump), CellResult):
                yield from self.beside()
                if item is not None:
                    yield self._record.emit(events.OutputDelta(output=item))
            cell = item
        except GeneratorExit:
            self._box.interrupt()  # nobody reads on: the cell must not run on by itself
            raise
        finally:
            pump.close()
            self._record.on_post = lambda: None
            self._end()
        yield from self.beside()
        return dataclasses.replace(cell, outputs=(*said, *cell.outputs, *self._not_made_again()))

    def _not_made_again(self) -> tuple[Output, ...]:
        """Calls of a cell that went on after the run was cut off: those that it had made before and not since."""
        left = self._recorded.left()
        if not left:
            return ()
        return (
            Notice(f"before the run was cut off, this code also called {', '.join(left)}; those calls stand"),
        )

    def _next(self, pump: Pump[Output | CellResult | None]) -> Output | CellResult | None:
        """What comes next of a cell. An interrupt may have come before the cell could take it: it is sent again until it ends."""
        while self._meter.unheeded:
            self._box.interrupt()
            with contextlib.suppress(Late):
                return pump.get(timeout=AGAIN_SECONDS)
        return pump.get()

    def interrupt(self) -> None:
        """Interrupts the cell that runs; what sets a kernel up is no cell. May be called from any thread."""
        if self._interruptible:
            self._box.interrupt()

    def _begin(self, cell: int, *, ended: bool) -> None:
        self._recorded.begin(cell, ended=ended)
        self._tools.begin(cell)
        self._interruptible = True

    def _end(self) -> None:
        self._interruptible = False
        self._tools.end()

    def beside(self) -> Iterator[events.Event]:
        """What happened on other threads since this was last asked: connections that ended, what they recorded."""
        while self._connections:
            connection = dataclasses.asdict(self._connections.popleft())
            yield self._record.emit(events.ConnectionEnded(**connection))
        yield from self._record.posted()

    def _observed(self, cell: CellResult) -> tuple[str, list[str]]:
        kept = [self._record.keep_picture(image) for image in cell.images[:MAX_PICTURES]]
        names = [name for name in kept if name is not None]
        budget, keep = observation.budget_of(self._setup.model), partial(self._keep_full, self.count)
        return observation.cell_text(cell, len(names), budget=budget, keep_full=keep), names

    def _keep_full(self, number: int, text: str) -> str:
        path = f".outputs/{number}.txt"
        try:
            self._box.write(path, text)
        except SandboxError:
            return "no file, for it could not be written"
        return f"/workspace/{path}"

    def _follow_up(self, source: str, cell: CellResult, text: str) -> str:
        said = self._said
        if cell.status == "interrupted" and cell.lost is None:
            flooded = any(isinstance(output, Notice) and output.text == FLOODED for output in cell.outputs)
            return said["flooded" if flooded else "interrupted"]
        again = self._repeats.seen(source, CELL_NUMBER.sub("", text))
        if again and cell.status in ("ok", "timeout"):
            return said["repeated"]
        if cell.status == "timeout":
            return said["slow"]
        if cell.status != "ok":
            names = said["names"].format(names=observation.names_text(self._names)) if self._names else ""
            found = hints(source, cell, self._tools_inside, self._box, said)
            last = said["repeated_error" if again else "error"]
            return "\n".join(filter(None, (names, *self._told, *found, last)))
        if text == observation.NOTHING:
            return said["nothing"]
        return said["empty" if observation.is_empty(text) else "ok"]

    @property
    def modules(self) -> Mapping[str, str]:
        """What code can import of the tools."""
        return stubs.modules(self._tools_inside) if self._setup.style.imports else {}

    @property
    def imports(self) -> list[str]:
        """The lines that import of it what every cell finds imported."""
        return prompt.imported(self._tools_inside)

    @property
    def _tools_inside(self) -> Sequence[Tool]:
        """The tools that code can import."""
        return self._setup.tools.tools if self._setup.style.imports else ()

    # -- after a kernel died -------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        """A kernel that died is followed by one that has what every kernel of the run has."""
        self._box.revive()
        typed = self._setup.check.typed
        workspace.restore(self._box, self.loaded, self.modules, imports=self.imports, typed=typed)

    def revived(self, done: Sequence[Past]) -> Generator[events.Event, None, tuple[Output, ...]]:
        """Sees to it that there is a kernel with the state that the cells of the run and of this turn (`done`) left."""
        said, lost = self._box.revive()
        if lost is not None:
            words = yield from self._after_death(_last_words(said), lost, done)
            said = (*said, Notice(words))
        return said

    def _after_death(
        self, reason: str, lost: str, done: Sequence[Past]
    ) -> Generator[events.Event, None, str]:
        """What `on_death` says: restores the state, or does not; what the model is told. `done` are the cells of this turn.

        Raises SandboxError where the run is to end, or no kernel is to be had.
        """
        if self._setup.on_death == "stop":
            raise SandboxError(f"{reason}; the run ends with its kernel (--on-death stop)")
        restored = Restored()
        if self._setup.on_death == "restore":
            cells = [*history(self._record.log).alive, *done]
            restored = self.restore(cells, files=lost == LOST_VARIABLES)
        else:
            self._set_up()
        if lost != LOST_VARIABLES:
            past = [*history(self._record.log).cells, *done]
            self.keep_full_again(past)
        yield from self.told(restored, reason, lost)
        return words(restored)

    def restore(self, cells: Sequence[Past], *, files: bool) -> Restored:
        """Brings a fresh kernel to the state that these cells left. Nothing of that is recorded."""
        self._recorded.load(self._record.log)
        self._interrupts_before = self._meter.interrupts
        self.restoring = True
        self._answering.mute(True)
        try:
            return self._restorer.restore(cells, self._meter.left(), files=files)
        finally:
            self.restoring = False
            self._answering.mute(False)
            self._connections.clear()

    def told(self, restored: Restored, reason: str, lost: str) -> Iterator[events.Event]:
        if restored.failed is not None:
            reason = f"{reason}; its state could not be restored: {restored.failed}"
        yield self._record.emit(
            events.SandboxRestarted(
                reason=reason,
                lost=lost,
                restored=restored.cells,
                differences=restored.differences,
                names=restored.names,
                seconds=restored.seconds,
            )
        )

    def keep_full_again(self, cells: Iterable[Past]) -> None:
        """The full texts of observations that were cut, in a workspace that has them no more: by a small model's budget, for
        one may have been shown them."""
        for past in cells:
            if past.result is not None:
                pictures, keep = len(past.result.images[:MAX_PICTURES]), partial(self._keep_full, past.number)
                observation.cell_text(past.result, pictures, budget=observation.SMALL_BUDGET, keep_full=keep)

    # -- called on the host by code in the sandbox ---------------------------------------------------------------

    def take_names(self, payload: Any) -> None:
        """`names`, called by code in the sandbox: the variables that there are after a cell that failed, and its last call."""
        match payload:
            case {"variables": dict() as found} if not self.restoring:
                self._names = {str(k)[:60]: str(v)[:400] for k, v in list(found.items())[:40]}
                self._told = list(told(payload, self._said))


def _to_the_end(outputs: Generator[Output, None, CellResult]) -> Iterator[Output | CellResult]:
    """The outputs of a cell, then its result."""
    yield (yield from outputs)


def _last_words(said: Sequence[Output]) -> str:
    """How a kernel ended, as the sandbox said it."""
    notices = [output.text for output in said if isinstance(output, Notice | Rung)]
    return notices[-1] if notices else "the kernel had ended"
