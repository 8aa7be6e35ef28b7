"""Executing the code of a reply, and observing what it did."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from codeact import context, events, manifest, observation, unseen, workspace
from codeact.errors import Answered
from codeact.pump import Pump
from codeact.run.answering import Answering
from codeact.run.asking import Asking
from codeact.run.meter import Meter
from codeact.run.record import Record
from codeact.run.setup import Setup
from codeact.tools import modules
from codeact.tools.runner import ToolRunner
from codeact.types import Code, Reading
from sandbox import CellResult, Connection, Output, Sandbox, SandboxError

CELL_NUMBER = re.compile(r"(?<=\bCell )\d+")
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
        asking: Asking,
        connections: deque[Connection],
        tools: ToolRunner,
    ) -> None:
        self._setup, self._box, self._record, self._meter = setup, box, record, meter
        self._answering, self._asking, self._connections = answering, asking, connections
        self._tools = tools
        self._count = 0
        self._names: Mapping[str, str] = {}
        self._seen_code: dict[str, str] = {}
        self._asked_unseen = False
        self._kernel_ready = True
        self._full_texts = 0
        self.ran = False
        self.described: Any = None

    # -- the code of a reply -------------------------------------------------------------------------------------

    def execute(self, turn: int, reading: Reading) -> Iterator[events.Event]:
        """Runs the actions of a reply up to the first that fails; ends the run when one of them gave the answer."""
        invented = self._made_up(reading)
        if invented is not None:
            yield self.observe(turn, context.follow_ups()["unseen"].format(value=invented))
            return
        texts: list[str] = []
        shown: list[str] = []
        for action in reading.actions:
            yield from self._restore()
            yield self._record.emit(events.CodeStarted(turn=turn, source=action.source))
            cell = yield from self._run_cell(action)
            yield from self._answering.told()
            text, pictures = self._observed(cell)
            texts.append(text)
            shown += pictures
            if self._answering.given or cell.status != "ok":
                break
        output = "\n".join(f"Output:\n{text}" for text in texts)
        if self._answering.given:
            yield self.observe(turn, output, cell, tuple(shown))
            raise Answered(answer=self._answering.last)
        follow_up = self._follow_up(reading.actions[len(texts) - 1], cell, texts[-1])
        if len(texts) < len(reading.actions):
            follow_up = f"{context.follow_ups()['more_blocks']} {follow_up}"
        notes = "".join(f"({note})\n" for note in reading.notes)
        yield self.observe(turn, f"{output}\n\n{notes}{follow_up}", cell, tuple(shown))
        self._meter.check(turn)

    def observe(
        self, turn: int, text: str, cell: CellResult | None = None, images: tuple[str, ...] = ()
    ) -> events.Event:
        return self._record.emit(events.Observed(turn=turn, text=text, cell=cell, images=images))

    def _made_up(self, reading: Reading) -> str | None:
        """A constant that a small model answers with and that it was never shown. It is asked about once."""
        if not self._setup.model.small or self._asked_unseen or len(reading.actions) != 1:
            return None
        messages = context.keep_all(self._record.log, {})
        shown = [message.content for message in messages if message.role == "user"]
        invented = unseen.made_up(reading.actions[0].source, shown)
        self._asked_unseen = invented is not None
        return invented

    # -- one cell ------------------------------------------------------------------------------------------------

    def _restore(self) -> Iterator[events.Event]:
        """After a kernel died, the next one gets what every kernel of a run has."""
        if not self._kernel_ready:
            workspace.restore(
                self._box,
                manifest.loaded_lines(self.described),
                modules.modules(self._setup.tools.tools),
            )
            self._kernel_ready = True
            yield self._record.emit(
                events.SandboxRestarted(reason="the kernel had ended", lost="all variables")
            )

    def _run_cell(self, action: Code) -> Generator[events.Event, None, CellResult]:
        left = self._meter.left()
        timeout = self._setup.cell_timeout if left is None else min(self._setup.cell_timeout, max(left, 1.0))
        self._names = {}
        self.ran = True
        longest = math.inf if left is None else left
        outputs = self._box.stream(action.source, timeout=timeout, max_timeout=longest)
        pump: Pump[Output | CellResult | None] = Pump(_to_the_end(outputs))
        self._record.on_post = lambda: pump.add(None)
        self._count += 1
        self._tools.begin(self._count)
        try:
            while not isinstance(item := pump.get(), CellResult):
                yield from self.beside()
                if item is not None:
                    yield self._record.emit(events.OutputDelta(output=item))
            cell = item
        finally:
            pump.close()
            self._record.on_post = lambda: None
            self._tools.end()
        yield from self.beside()
        if cell.lost:
            self._kernel_ready = False
        return cell

    def beside(self) -> Iterator[events.Event]:
        """What happened on other threads since this was last asked: connections that ended, what they recorded."""
        while self._connections:
            connection = dataclasses.asdict(self._connections.popleft())
            yield self._record.emit(events.ConnectionEnded(**connection))
        yield from self._record.posted()

    def _observed(self, cell: CellResult) -> tuple[str, list[str]]:
        kept = [self._record.keep_picture(image) for image in cell.images[:MAX_PICTURES]]
        names = [name for name in kept if name is not None]
        budget = observation.SMALL_BUDGET if self._setup.model.small else observation.BUDGET
        return observation.cell_text(cell, len(names), budget=budget, keep_full=self._keep_full), names

    def _keep_full(self, text: str) -> str:
        self._full_texts += 1
        path = f".outputs/{self._full_texts}.txt"
        try:
            self._box.write(path, text)
        except SandboxError:
            return "no file, for it could not be written"
        return f"/workspace/{path}"

    def _follow_up(self, action: Code, cell: CellResult, text: str) -> str:
        said = context.follow_ups()
        if cell.status == "interrupted" and cell.lost is None:
            return said["interrupted"]
        came_of_it = CELL_NUMBER.sub("", text)
        if self._seen_code.get(action.source) == came_of_it:
            self._asking.repeats += 1
            return said["repeated"]
        self._asking.repeats = 0
        self._seen_code[action.source] = came_of_it
        if cell.lost:
            return said["lost"]
        if cell.status == "timeout":
            return said["slow"]
        if cell.status != "ok":
            names = said["names"].format(names=observation.names_text(self._names)) if self._names else ""
            return f"{names}\n{said['error']}".strip()
        if text == observation.NOTHING:
            return said["nothing"]
        return said["empty" if observation.is_empty(text) else "ok"]

    def take_names(self, payload: Any) -> None:
        """`names`, called by code in the sandbox: the variables that there are after a cell that failed."""
        if isinstance(payload, dict):
            self._names = {str(k)[:60]: str(v)[:400] for k, v in list(payload.items())[:40]}


def _to_the_end(outputs: Generator[Output, None, CellResult]) -> Iterator[Output | CellResult]:
    """The outputs of a cell, then its result."""
    yield (yield from outputs)
