"""Making the calls of a reply, and observing what each came to."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, Literal

from codeact import events, observation, unseen
from codeact.actions.native import CODE, FINAL
from codeact.errors import Answered
from codeact.events import CallResult
from codeact.pump import Late, Pump
from codeact.recorded import RecordedCalls
from codeact.run.answering import Answering
from codeact.run.cells import AGAIN_SECONDS, Cells
from codeact.run.history import Past
from codeact.run.meter import Meter
from codeact.run.record import Record
from codeact.run.repeats import Repeats
from codeact.run.setup import Setup
from codeact.tools.returned import error_text, text
from codeact.tools.runner import ToolRunner
from codeact.tools.tool import Tool
from codeact.types import Call, Model, Reading
from sandbox.errors import HostCallRefused

AT_ONCE = 16
"""Calls that are under way at the same time, at most."""

Kind = Literal["refused", "tool", "code", "answer"]


@dataclass(slots=True)
class _Turn:
    """What has been made of a turn so far: results by id, cells, and the names of their pictures."""

    number: int
    results: dict[str, CallResult] = field(default_factory=dict)
    done: list[Past] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    output: str = ""
    """The observation of the last cell."""

    def put(self, call: Call, said: str, *, ok: bool = False, made: bool = False) -> None:
        self.results[call.id] = CallResult(call.id, call.name, said, ok, made)


class Calls:
    """The calls of one run that the model makes itself. `made`: there was one of a tool."""

    def __init__(
        self,
        setup: Setup,
        cells: Cells,
        record: Record,
        meter: Meter,
        answering: Answering,
        tools: ToolRunner,
        recorded: RecordedCalls,
        repeats: Repeats,
    ) -> None:
        self._style, self._cells, self._record, self._meter = setup.style, cells, record, meter
        self._answering, self._tools, self._recorded, self._repeats = answering, tools, recorded, repeats
        self.made = False
        self._model, self._asked_guess = setup.model, False

    def execute(self, turn: int, reading: Reading) -> Iterator[events.Event]:
        """Makes the calls of a reply: of tools at the same time, of code one after the other up to one that fails, and the answer
        last. Ends the run when the answer was taken."""
        at = _Turn(turn)
        self._refuse(reading.calls, at)
        for kind, group in itertools.groupby(reading.calls, lambda call: self._kind(call, at)):
            match kind:
                case "tool":
                    yield from self._call_tools(list(group), at)
                case "code":
                    for call in group:
                        yield from self._run_code(call, at)
        for call in reading.calls:
            if call.id not in at.results:
                yield from self._answer(call, at)
        results = tuple(at.results[call.id] for call in reading.calls)
        if self._answering.given:
            yield self._observe(at, results)
            raise Answered(answer=self._answering.last)
        follow_up = yield from self._follow_up(reading.calls, results, at)
        if self._meter.heed():
            follow_up = self._style.said["interrupted"]
        notes = "".join(f"({note})\n" for note in reading.notes)
        last = results[-1]
        said = CallResult(last.id, last.name, f"{last.text}\n\n{notes}{follow_up}", last.ok, last.made)
        yield self._observe(at, (*results[:-1], said))
        self._repeats.check()
        self._meter.check(turn)

    def _observe(self, at: _Turn, results: tuple[CallResult, ...]) -> events.Event:
        whole = "\n\n".join(f"Result of {result.name}:\n{result.text}" for result in results)
        return self._cells.observe(at.number, whole, at.done, tuple(at.pictures), results)

    def use(self, model: Model) -> None:
        """Another model makes the calls from here on."""
        self._model = model

    # -- what is not made ----------------------------------------------------------------------------------------

    def _refuse(self, calls: Sequence[Call], at: _Turn) -> None:
        """Answers the calls that are not to be made, each with why."""
        said = self._style.said
        seen: set[str] = set()
        for number, call in enumerate(calls):
            written = _written([call])
            if call.problem is not None:
                at.put(call, error_text("ArgumentError", call.problem))
            elif self._unknown(call):
                known = ", ".join(self._style.definitions)
                at.put(
                    call,
                    error_text("UnknownTool", said["unknown"].format(name=call.name, known=known)),
                    ok=False,
                )
            elif self._style.one_call and number:
                at.put(call, said["one_call"])
            elif written in seen:
                at.put(call, said["same_call"], ok=True)
            seen.add(written)

    def _unknown(self, call: Call) -> bool:
        return call.name != FINAL and call.name not in self._style.definitions

    def _kind(self, call: Call, at: _Turn) -> Kind:
        if call.id in at.results:
            return "refused"
        if call.name in self._style.tools:
            return "tool"
        return "code" if call.name in CODE else "answer"

    # -- tools ---------------------------------------------------------------------------------------------------

    def _call_tools(self, calls: Sequence[Call], at: _Turn) -> Iterator[events.Event]:
        """Calls tools, at the same time; none where the person said stop meanwhile."""
        if self._meter.unheeded:
            for call in calls:
                at.put(call, self._style.said["not_made"])
            return
        self.made = True
        self._recorded.begin(-at.number, ended=False)
        self._tools.begin(-at.number)
        pump: Pump[tuple[Call, CallResult] | None] = Pump(self._made(calls))
        self._record.on_post = lambda: pump.add(None)
        left = len(calls)
        try:
            while left:
                yield from self._cells.beside()  # also what came before anybody was told of it
                item = self._next(pump)
                if item is not None:
                    call, result = item
                    at.results[call.id] = result
                    left -= 1
        finally:
            self._record.on_post = lambda: None
            self._tools.end()
            pump.close()
        yield from self._cells.beside()

    def _next(self, pump: Pump[tuple[Call, CallResult] | None]) -> tuple[Call, CallResult] | None:
        """What comes next. An interrupt may have come before there was a call that could be cancelled: it is sent again."""
        while self._meter.unheeded:
            self._tools.interrupt()
            with contextlib.suppress(Late):
                return pump.get(timeout=AGAIN_SECONDS)
        return pump.get()

    def _made(self, calls: Sequence[Call]) -> Iterator[tuple[Call, CallResult]]:
        """The calls, each with what it came to, as they end."""
        with ThreadPoolExecutor(min(AT_ONCE, len(calls)), thread_name_prefix="call") as threads:
            futures = {threads.submit(self._call_tool, call): call for call in calls}
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _call_tool(self, call: Call) -> CallResult:
        tool = self._style.tools[call.name]
        try:
            found = text(self._tools.call(tool.path, _by_parameter(tool, call.arguments)))
        except HostCallRefused as error:
            return CallResult(call.id, call.name, error_text(error.name, str(error)), False)
        return CallResult(call.id, call.name, observation.cut(found, observation.budget_of(self._model)))

    # -- code, and the answer ------------------------------------------------------------------------------------

    def _run_code(self, call: Call, at: _Turn) -> Iterator[events.Event]:
        if at.done and (at.done[-1].status != "ok" or self._answering.given):
            at.put(call, self._style.said["not_run_behind"])
            return
        at.output, pictures = yield from self._cells.run(at.number, str(call.arguments["code"]), at.done)
        at.pictures += pictures
        at.put(call, f"Output:\n{at.output}", ok=at.done[-1].status == "ok", made=True)

    def _answer(self, call: Call, at: _Turn) -> Iterator[events.Event]:
        """Takes an answer, unless it is a guess: written before what other calls found was seen."""
        said = self._style.said
        if self._answering.given or self._meter.unheeded:
            at.put(call, said["not_made"])
            return
        if self._is_guess(at):
            at.put(call, said["not_taken"])
            return
        if self._is_unfounded(call):
            self._asked_guess = True
            at.put(call, said["unseen"].format(value=repr(call.arguments["value"])))
            return
        try:
            self._answering.take_written(call.arguments)
        except HostCallRefused as error:
            at.put(call, error_text(error.name, str(error)), made=True)
        else:
            at.put(call, "The answer was taken.", ok=True, made=True)
        yield from self._answering.told()

    def _is_guess(self, at: _Turn) -> bool:
        """Whether the reply holds other calls than the answer whose results it should have seen: all but effects that went well."""
        for result in at.results.values():
            tool = self._style.tools.get(result.name)
            if result.name != FINAL and (not result.ok or tool is None or tool.policy.effects == "read"):
                return True
        return False

    def _is_unfounded(self, call: Call) -> bool:
        """Whether a small model answers before it has called anything, with what it was never shown. It is asked about once."""
        if not self._model.small or self._asked_guess or self.made or self._cells.ran:
            return False
        return not unseen.is_founded(call.arguments.get("value"), self._cells.shown(), begun=False)

    def _follow_up(
        self, calls: Sequence[Call], results: Sequence[CallResult], at: _Turn
    ) -> Generator[events.Event, None, str]:
        said = self._style.said
        if at.done:
            beside = [call for call in calls if call.name not in CODE]
            return (yield from self._cells.follow_up(at.done, at.output, _written(beside) if beside else ""))
        if self._repeats.seen(_written(calls), json.dumps([result.text for result in results])):
            return said["repeated"]
        guess = [result.name == FINAL and not result.made for result in results]
        well = all(result.ok or guessed for result, guessed in zip(results, guess, strict=True))
        return said["ok" if well else "error"]


def _written(calls: Sequence[Call]) -> str:
    return json.dumps([[call.name, call.arguments, call.problem] for call in calls], sort_keys=True)


def _by_parameter(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names that code uses, where the definition has the source's own."""
    names = {each.sent: each.name for each in tool.parameters if each.sent}
    return {names.get(key, key): value for key, value in arguments.items()}
