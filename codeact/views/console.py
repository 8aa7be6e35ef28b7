"""A run drawn on standard error while it goes: an observer of events.

`View` decides what is said, a `Screen` how: `RichScreen` on a terminal, `PlainScreen` elsewhere. All that comes from a
run is text and nothing else: no markup, no terminal sequence is carried out.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TextIO

from codeact import events
from codeact.events import Event
from codeact.types import Usage
from codeact.views import calls
from codeact.views.pieces import Clip, Prose
from codeact.views.plain import PlainScreen
from sandbox.text import clean
from sandbox.types import CellError, CellResult, Dropped, Notice, Output, Rich, Rung, Stream

TASK_SHOWN = 200


class Screen(Protocol):
    unicode: bool

    def line(self, text: str, style: str = "") -> None:
        """A line of its own."""

    def write(self, text: str, style: str = "") -> None:
        """A piece of a text that goes on."""

    def end(self) -> None:
        """Ends a line that was begun."""

    def code(self, source: str) -> None: ...

    def wait(self, what: str) -> None:
        """Nothing will come for a while: says why. The next word ends it."""

    def close(self) -> None: ...


class RichScreen:
    """A terminal, with colours where it has them and `NO_COLOR` is not set."""

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        from rich.console import Console

        self._console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
        self._status: Any = None
        self._begun = False
        self.unicode = self._console.encoding.startswith("utf")

    def line(self, text: str, style: str = "") -> None:
        self.end()
        self._print(text, style, "\n")

    def write(self, text: str, style: str = "") -> None:
        self._print(text, style, "")
        self._begun = not text.endswith("\n")

    def end(self) -> None:
        self._calm()
        if self._begun:
            self._begun = False
            self._print("", "", "\n")

    def code(self, source: str) -> None:
        from rich.padding import Padding
        from rich.syntax import Syntax

        self.end()
        syntax = Syntax(
            source.rstrip(), "python", theme="ansi_dark", word_wrap=True, background_color="default"
        )
        self._guarded(partial(self._console.print, Padding(syntax, (0, 0, 0, 2))))

    def wait(self, what: str) -> None:
        self.end()
        self._status = self._console.status(what, spinner="dots" if self.unicode else "line")
        self._guarded(self._status.start)

    def close(self) -> None:
        self.end()

    def _calm(self) -> None:
        if self._status is not None:
            status, self._status = self._status, None
            self._guarded(status.stop)

    def _print(self, text: str, style: str, end: str) -> None:
        from rich.text import Text

        self._calm()
        self._guarded(partial(self._console.print, Text(text, style=style), soft_wrap=True, end=end))

    def _guarded(self, done: Callable[[], None]) -> None:
        try:
            done()
        except (OSError, ValueError):
            pass  # the terminal has gone; the run goes on


def screen(stream: TextIO) -> Screen:
    """The screen that suits `stream`."""
    if stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
        return RichScreen(stream)
    return PlainScreen(stream)


class View:
    """Draws events on a screen. `show_answer` is for where the answer itself goes to another place than this screen."""

    def __init__(self, screen: Screen, *, show_answer: bool = False) -> None:
        self._screen = screen
        self._show_answer = show_answer
        self._dot = " · " if screen.unicode else " | "
        self._arrow = "→" if screen.unicode else "->"
        self._tally = calls.Tally()
        self._turn = Turn()
        self._turns = 0
        self._prose = Prose()
        self._clip = Clip()
        self._drawing = (
            threading.RLock()
        )  # what prepares a model and what interrupts a run speak from other threads

    def __call__(self, event: Event) -> None:
        with self._drawing:
            self._draw(event)

    def in_chat(self, event: Event) -> None:
        """As `__call__`, for who has just typed the task, and will type the next."""
        if not isinstance(event, events.RunResumed):
            self(event)

    def _draw(self, event: Event) -> None:
        match event:
            case events.RunStarted():
                self._start(event)
            case events.TurnStarted():
                self._end_turn()
                self._turns = event.turn
                self._turn = Turn(event.turn)
                self._prose = Prose()
                self._screen.wait("waiting for the model")
            case events.TextDelta():
                self._delta(event)
            case events.Replied():
                self._replied(event)
            case events.CodeStarted():
                self._clip = Clip()
                self._turn.drawn = False
                self._screen.code(clean(event.source))
                self._screen.wait("running")
            case events.ToolCalled():
                self._tally.called(event)
                self._screen.wait(f"calling {clean(event.tool)}")
            case events.ApprovalGiven():
                self._tally.approved(event)
            case events.ToolProgress():
                self._screen.wait(calls.progress(event))
            case events.ToolReturned():
                self._returned(event)
            case events.OutputDelta():
                self._turn.drawn = True
                self._output(event.output)
            case events.Observed():
                self._observed(event)
            case events.ConnectionEnded():
                self._screen.line(_connection(event), "dim" if event.outcome == "closed" else "yellow")
            case events.Retrying():
                self._prose = Prose()
                self.say(
                    f"attempt {event.attempt} failed: {event.reason}; asking again in {event.wait:.1f} s"
                )
                self._screen.wait("waiting for the model")
            case events.LimitReached():
                self.say(f"limit reached: {event.limit} ({event.value:,.10g})")
            case events.SandboxRestarted():
                self.say(f"the sandbox was started afresh: {event.reason}; lost: {event.lost}")
                if event.restored:
                    number = len(event.restored)
                    self.say(
                        f"{number} cell{'s' * (number != 1)} run again for the state, in {event.seconds:.1f} s"
                    )
                for line in event.differences:
                    self.say(f"not as before: {line}")
                if event.names:
                    self.say(f"missing variables: {', '.join(event.names)}")
            case events.RunResumed():
                self.say(f"the run is carried on{': ' + event.task if event.task else ''}")
            case events.DataGiven():
                self.say(f"data was given: {', '.join([*event.data, *event.given])}")
                self._problems(event.problems)
            case events.Undone():
                self.say("the last task was undone")
            case events.AnswerGiven(accepted=False):
                self.say(f"answer refused: {event.problem}")
            case events.RunEnded():
                self._end(event)

    def say(self, text: str) -> None:
        """A notice, of the run or of what prepares it."""
        with self._drawing:
            self._screen.line(clean(text), "yellow")

    def close(self) -> None:
        self._screen.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nothing is drawn meanwhile but by who has called this."""
        with self._drawing:
            self._screen.end()
            yield
            self._screen.wait("running")

    def question(self, text: str) -> None:
        """A question, at the end of which the answer is typed."""
        self._screen.line(clean(text).rstrip(), "bold")

    def show_call(self, source: str) -> None:
        self._screen.code(source)

    def _returned(self, event: events.ToolReturned) -> None:
        call = self._tally.returned(event)
        if call is not None:
            line = f"{calls.line(call, self._arrow)}{self._dot}{calls.seconds(call, self._dot)}"
            self._screen.line(line, "cyan" if event.ok else "red")
            self._screen.wait("running")

    def _start(self, event: events.RunStarted) -> None:
        task = " ".join(clean(event.task).split())
        cut = task if len(task) <= TASK_SHOWN else task[: TASK_SHOWN - 3] + "..."
        self._screen.line(cut, "bold")
        self._screen.line(self._dot.join((clean(event.model), f"run {event.run}")), "dim")
        self._problems(event.problems)
        self._screen.wait("starting the sandbox")

    def _problems(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self._screen.line(f"problem: {clean(problem)}", "yellow")

    def _delta(self, event: events.TextDelta) -> None:
        text = clean(event.text)
        shown = text if event.kind == "reasoning" else self._prose.feed(text)
        self._turn.streamed = True
        if shown:
            self._screen.write(shown, "dim italic" if event.kind == "reasoning" else "dim")

    def _replied(self, event: events.Replied) -> None:
        rest = self._prose.rest() if self._turn.streamed else clean(event.reading.thoughts)
        if rest.strip():
            self._screen.write(rest, "dim")
        self._screen.end()
        self._turn.model_seconds += event.seconds
        self._turn.usage += event.usage

    def _output(self, output: Output) -> None:
        match output:
            case Stream():
                self._text(output.text, "dim" if output.name == "stderr" else "")
            case Rich():
                self._end_line()
                self._text(_summary(output) + "\n", "cyan" if output.kind == "result" else "")
            case CellError():
                self._end_line()
                self._text((output.traceback.rstrip() or str(output)) + "\n", "red")
            case Dropped():
                self.say(f"{output.bytes:,} bytes of output were dropped: {output.reason}")
            case Notice():
                self.say(output.text)
            case Rung():
                self.say(str(output))

    def _end_line(self) -> None:
        self._screen.end()
        self._clip.end_line()

    def _text(self, text: str, style: str) -> None:
        if shown := self._clip.feed(clean(text)):
            self._screen.write(shown, style)

    def _observed(self, event: events.Observed) -> None:
        if event.cell is None and not event.results:
            self.say(event.text)
            return
        if event.cell is not None and not self._turn.drawn:
            for output in event.cell.outputs:
                self._output(output)
        self._screen.end()
        if rest := self._clip.rest():
            self._screen.line(rest, "dim")
        for line in self._tally.rest():
            self._screen.line(line, "cyan")
        for result in event.results:
            if not result.made:
                self.say(f"{result.name} was not called: {result.text}")
        if event.cell is not None:
            self._turn.code_seconds += event.cell.seconds
            if ending := _ending(event.cell):
                self.say(ending)
        for name in event.images:
            self._screen.line(f"picture: {clean(name)}", "cyan")

    def _end_turn(self) -> None:
        if not self._turn.number:
            return
        turn = self._turn
        parts = [
            f"turn {turn.number}",
            f"{turn.model_seconds:.1f} s model",
            f"{turn.code_seconds:.1f} s code",
        ]
        self._screen.line(self._dot.join([*parts, _tokens(turn.usage)]), "dim")
        self._turn = Turn()

    def _end(self, event: events.RunEnded) -> None:
        self._end_turn()
        if self._show_answer and event.status == "answered":
            text = (
                event.answer
                if isinstance(event.answer, str)
                else json.dumps(event.answer, ensure_ascii=False)
            )
            clip = Clip()
            self._screen.line("answer: " + clip.feed(clean(text)) + clip.rest(), "bold green")
        for artifact in event.artifacts:
            self._screen.line(f"artifact: {clean(str(artifact.path))} ({artifact.size:,} bytes)", "green")
        turns = f"{self._turns} turn{'' if self._turns == 1 else 's'}"
        status = event.status.replace("_", " ")
        self._screen.line(
            self._dot.join([status, turns, f"{event.seconds:.1f} s", _tokens(event.usage)]), "bold"
        )
        self._screen.line(f"run: {event.run}", "dim")


class Turn:
    """What is known of one turn so far. `drawn` is whether the running cell's outputs came one by one."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.model_seconds = 0.0
        self.code_seconds = 0.0
        self.usage = Usage()
        self.streamed = False
        self.drawn = False


def _summary(output: Rich) -> str:
    if text := output.data.get("text/plain"):
        return text
    return f"({', '.join(sorted(output.data))})"


def _ending(cell: CellResult) -> str:
    said = {
        "timeout": "the cell ran out of time",
        "interrupted": "the cell was interrupted",
        "died": "the kernel died",
    }
    ending = said.get(cell.status, "")
    lost = f"lost: {cell.lost}" if cell.lost else ""
    return "; ".join(part for part in (ending, lost) if part)


def _connection(event: events.ConnectionEnded) -> str:
    where = f"network: {clean(event.host)}:{event.port}"
    if event.outcome == "refused":
        return f"network: {clean(event.reason)}"
    moved = f"{event.sent:,} bytes sent, {event.received:,} received, {event.seconds:.1f} s"
    return f"{where} {moved}" + (f"; {event.outcome}: {clean(event.reason)}" if event.reason else "")


def _tokens(usage: Usage) -> str:
    about = "about " if usage.estimated else ""
    return f"{about}{usage.prompt_tokens}+{usage.completion_tokens} tokens"
