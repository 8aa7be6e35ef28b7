"""The terminal view, drawn from hand-made events on plain lines and on a terminal."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact import events, journal
from codeact.events import Event
from codeact.types import Artifact, Code, Reading, Usage
from codeact.views import recorded
from codeact.views.console import RichScreen, View, screen
from codeact.views.pieces import Clip, Prose
from codeact.views.plain import PlainScreen
from sandbox.types import CellError, CellResult, Dropped, Notice, Output, Rich, Rung, Stream, Variable

ESCAPE = "\x1b"
CODE = "import pandas as pd\ndf = pd.read_csv('data/x.csv')\ndf.b.sum()"
REPLY = f"I load it [bold]first[/bold].\n\n```python\n{CODE}\n```\n"
OUTPUTS: tuple[Output, ...] = (
    Stream("stdout", "loading\n"),
    Stream("stderr", "a warning\n"),
    Rich("result", {"text/plain": "6"}),
)
USAGE = Usage(1, 812, 96)


def turn(
    number: int, reply: str, code: str, outputs: tuple[Output, ...], *, live: bool = True
) -> list[Event]:
    """One turn of a run, with the pieces that only those who watch get."""
    deltas = [events.TextDelta(text=piece) for piece in re.findall(r"\s*\S+|\s+", reply)] if live else []
    shown = [events.OutputDelta(output=output) for output in outputs] if live else []
    reading = Reading("I load it [bold]first[/bold].", (Code(code),))
    cell = CellResult("ok", outputs, seconds=0.21)
    return [
        events.TurnStarted(turn=number),
        *deltas,
        events.Replied(
            turn=number, text=reply, reading=reading, finish="stop", usage=USAGE, model="m", seconds=3.14
        ),
        events.CodeStarted(turn=number, source=code),
        *shown,
        events.Observed(turn=number, text="(for the model)", cell=cell),
    ]


def run(*between: Event, live: bool = True, artifacts: tuple[Artifact, ...] = ()) -> list[Event]:
    started = events.RunStarted(
        run="r-1", task="Sum  b\nplease", model="gpt-x", settings={}, system="s", first="f"
    )
    ended = events.RunEnded(
        run="r-1", status="answered", answer=6, usage=USAGE + USAGE, seconds=7.5, artifacts=artifacts
    )
    return [started, *turn(2, REPLY, CODE, OUTPUTS, live=live), *between, ended]


def plain(*drawn: Event, show_answer: bool = False) -> str:
    stream = io.StringIO()
    view = View(PlainScreen(stream), show_answer=show_answer)
    for event in drawn:
        view(event)
    view.close()
    return stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "COLORTERM",
        "COLUMNS",
        "LINES",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def on_terminal(*drawn: Event, width: int = 80) -> str:
    stream = Terminal()
    view = View(RichScreen(stream, width))
    for event in drawn:
        view(event)
    view.close()
    return stream.getvalue()


PLAIN = """\
Sum b please
gpt-x | run r-1
I load it [bold]first[/bold].
>>> import pandas as pd
... df = pd.read_csv('data/x.csv')
... df.b.sum()
loading
a warning
6
turn 2 | 3.1 s model | 0.2 s code | 812+96 tokens
artifact: /o/r.txt (1,234 bytes)
answered | 2 turns | 7.5 s | 1624+192 tokens
run: r-1
"""


def test_a_run_in_plain_lines() -> None:
    drawn = run(artifacts=(Artifact("r.txt", Path("/o/r.txt"), 1234),))
    assert plain(*drawn) == PLAIN


def test_a_run_read_back_from_its_journal_looks_the_same() -> None:
    drawn = run(artifacts=(Artifact("r.txt", Path("/o/r.txt"), 1234),))
    lines = [json.loads(json.dumps(journal.to_json(e))) for e in drawn if not e.live_only]
    assert plain(*recorded.events_of(lines)) == PLAIN


def test_lines_of_a_journal_that_cannot_be_read_are_passed_over() -> None:
    lines: list[dict[str, Any]] = [
        {"type": "from_the_future"},
        {"type": "observed", "cell": 5},
        {},
        {"type": "turn_started", "turn": 3},
    ]
    assert list(recorded.events_of(lines)) == [events.TurnStarted(turn=3)]


def test_a_stopped_cell_is_read_back_as_it_was() -> None:
    cell = CellResult(
        "timeout", (Rung(1, "interrupt", "sent", 2.5),), 3.0, survived=(Variable("df", "DataFrame 6×4", 320),)
    )
    event = events.Observed(run="r", turn=1, text="t", cell=cell)
    line = json.loads(json.dumps(journal.to_json(event)))
    assert line["cell"]["outputs"] == [
        {"type": "rung", "step": 1, "action": "interrupt", "text": "sent", "seconds": 2.5}
    ]
    assert list(recorded.events_of([line])) == [event]
    del line["cell"]["survived"]  # as it was written before there was such a field
    (old,) = recorded.events_of([line])
    assert isinstance(old, events.Observed)
    assert old.cell is not None
    assert old.cell.survived is None


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            events.Retrying(attempt=1, reason="429 busy", wait=2.5),
            "attempt 1 failed: 429 busy; asking again in 2.5 s",
        ),
        (events.LimitReached(limit="turns", value=20.0), "limit reached: turns (20)"),
        (
            events.SandboxRestarted(reason="it died", lost="all variables"),
            "the sandbox was started afresh: it died; lost: all variables",
        ),
        (
            events.AnswerGiven(answer="x", accepted=False, problem="not a number"),
            "answer refused: not a number",
        ),
        (events.Observed(turn=1, text="two fences in one"), "two fences in one"),
        (events.OutputDelta(output=Notice("an interrupt was sent")), "an interrupt was sent"),
        (
            events.OutputDelta(output=Rung(2, "second_interrupt", "it did not stop", 4.0)),
            "step 2 of 5, after 4 s: it did not stop",
        ),
        (
            events.OutputDelta(output=Dropped(12345, "too much")),
            "12,345 bytes of output were dropped: too much",
        ),
        (events.OutputDelta(output=Rich("display", {"image/png": "aGk="})), "(image/png)"),
        (
            events.OutputDelta(output=CellError("E", "m", "Traceback (most recent call last):\nE: m")),
            "Traceback (most recent call last):\nE: m",
        ),
        (events.OutputDelta(output=CellError("KeyError", "'b'", "")), "KeyError: 'b'"),
    ],
)
def test_what_else_happens_is_a_line_of_its_own(event: Event, line: str) -> None:
    text = plain(
        events.OutputDelta(output=Stream("stdout", "half a line")), event, events.TurnStarted(turn=2)
    )
    assert text == f"half a line\n{line}\n"


@pytest.mark.parametrize(
    ("status", "lost", "line"),
    [
        ("timeout", None, "the cell ran out of time"),
        ("interrupted", None, "the cell was interrupted"),
        ("died", "all variables", "the kernel died; lost: all variables"),
        ("ok", None, None),
        ("error", None, None),
    ],
)
def test_how_a_cell_ended(status: str, lost: str | None, line: str | None) -> None:
    cell = CellResult(status, (), 1.0, lost)  # type: ignore[arg-type]
    assert plain(events.Observed(turn=1, text="", cell=cell)) == (f"{line}\n" if line else "")


def test_a_retry_starts_the_text_again() -> None:
    drawn = [
        events.TurnStarted(turn=1),
        events.TextDelta(text="Half a"),
        events.Retrying(attempt=1, reason="cut", wait=0.0),
        events.TextDelta(text="Whole."),
    ]
    assert plain(*drawn) == "Half a\nattempt 1 failed: cut; asking again in 0.0 s\nWhole.\n"


def test_the_answer_is_drawn_where_standard_output_is_elsewhere() -> None:
    assert "answer: 6\n" in plain(*run(), show_answer=True)
    assert "answer:" not in plain(*run())


def test_terminal_sequences_and_markup_are_inert() -> None:
    hostile = f"{ESCAPE}]0;title\x07{ESCAPE}[2J[red]x[/red]\x9b31m\x08"
    drawn = [
        events.RunStarted(
            run="r", task=hostile, model=hostile, settings={}, system="", first="", problems=(hostile,)
        ),
        events.TurnStarted(turn=1),
        events.TextDelta(text=hostile + "\n"),
        events.CodeStarted(turn=1, source=hostile),
        events.OutputDelta(output=Stream("stdout", hostile + "\n")),
        events.OutputDelta(output=Rich("result", {"text/plain": hostile})),
        events.OutputDelta(output=CellError("E", "m", hostile)),
        events.OutputDelta(output=Notice(hostile)),
        events.AnswerGiven(answer=1, accepted=False, problem=hostile),
    ]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", plain(*drawn))
    assert plain(*drawn).count("[red]x[/red]") == 10
    shown = on_terminal(*drawn, width=300)
    assert "title" not in shown
    assert "2J" not in shown
    assert "[red]x[/red]" in shown


@pytest.mark.parametrize("width", [20, 80, 300])
def test_a_terminal_of_any_width(width: int) -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", on_terminal(*run(), width=width))
    flat = re.sub(r"\s+", "", text)
    for part in (
        "Sumbplease",
        "Iloadit[bold]first[/bold].",
        "df=pd.read_csv",
        "loading",
        "3.1smodel",
        "run:r-1",
    ):
        assert part in flat


def test_a_terminal_has_colours_unless_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", on_terminal(*run()))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", on_terminal(*run()))


def test_a_stream_that_has_gone_does_not_end_the_run() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", buffering=1) as gone:
        view = View(PlainScreen(gone))
        for event in run():
            view(event)
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)


def test_a_terminal_that_knows_only_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    view = View(PlainScreen(stream))
    view(events.RunStarted(run="r", task="Größe 数", model="m", settings={}, system="", first=""))
    assert raw.getvalue() == b"Gr\\xf6\\xdfe \\u6570\nm | run r\n"


def test_which_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(screen(io.StringIO()), PlainScreen)
    main, side = os.openpty()
    with open(side, "w") as terminal:
        monkeypatch.setenv("TERM", "xterm")
        assert isinstance(screen(terminal), RichScreen)
        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(screen(terminal), PlainScreen)
    os.close(main)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Plain words.", "Plain words."),
        ("Before.\n\n```python\nx = 1\n```\n\nAfter.", "Before.\n\nAfter."),
        ("Before\n~~~py\nx\n~~~", "Before"),
        ("<code>\nx = 1\n</code>\nafter", "after"),
        ("<code>x = 1</code>\nafter", "after"),
        ("inline `x` and ``y`` stay", "inline `x` and ``y`` stay"),
        ("```python\nnever closed", ""),
        ("a < b\n<p stays", "a < b\n<p stays"),
        ("  indented\n    more", "  indented\n    more"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_prose_is_shown_without_its_code(text: str, shown: str, size: int) -> None:
    prose = Prose()
    pieces = [prose.feed(text[start : start + size]) for start in range(0, len(text), size)]
    assert "".join([*pieces, prose.rest()]) == shown


def test_a_long_output_keeps_head_and_tail() -> None:
    clip = Clip()
    lines = [f"line {number}\n" for number in range(1000)]
    shown = "".join(clip.feed(line) for line in lines)
    assert shown == "".join(lines[:40])
    told, *tail = clip.rest().split("\n")
    hidden = sum(len(line) for line in lines[40:])
    assert tail == [f"line {number}" for number in range(990, 1000)]
    assert told == f"... {hidden - len('line 990') * 10 - 9:,} characters not shown ..."


def test_a_hidden_traceback_begins_on_a_line_of_its_own() -> None:
    events_drawn = turn(1, "x", "y", (Stream("stdout", "spam" * 2000), CellError("E", "m", "Traceback: E")))
    assert "spam\nTraceback: E\n" in plain(*events_drawn)


def test_one_long_line_is_cut() -> None:
    clip = Clip()
    assert clip.feed("x" * 1_000_000) == "x" * 4000
    assert clip.rest() == f"... 995,000 characters not shown ...\n{'x' * 1000}"


@given(st.lists(st.text(alphabet="ab\n", max_size=300), max_size=40))
def test_a_clip_shows_the_beginning_and_nothing_else(pieces: list[str]) -> None:
    clip = Clip()
    shown = "".join(clip.feed(piece) for piece in pieces)
    whole = "".join(pieces)
    assert whole.startswith(shown)
    assert shown.count("\n") <= 40
    assert (clip.rest() == "") == (whole.removeprefix(shown) in ("", "\n"))  # the end of a line is no loss


def test_a_clip_that_hides_the_end_of_a_line_says_nothing() -> None:
    clip = Clip()
    assert (clip.feed("\n" * 41), clip.rest()) == ("\n" * 40, "")


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            events.ConnectionEnded(
                host="api.example.com",
                port=443,
                outcome="closed",
                reason="",
                sent=1234,
                received=56789,
                seconds=0.31,
            ),
            "network: api.example.com:443 1,234 bytes sent, 56,789 received, 0.3 s",
        ),
        (
            events.ConnectionEnded(
                host="a\x1b[31m.example",
                port=80,
                outcome="refused",
                reason="it is\x1b[2J refused",
                sent=0,
                received=0,
                seconds=0,
            ),
            "network: it is refused",
        ),
        (
            events.ConnectionEnded(
                host="a.example", port=80, outcome="cut", reason="too long", sent=1, received=2, seconds=9
            ),
            "network: a.example:80 1 bytes sent, 2 received, 9.0 s; cut: too long",
        ),
    ],
)
def test_a_connection_is_one_line(event: Event, line: str) -> None:
    stream = io.StringIO()
    View(PlainScreen(stream))(event)
    assert stream.getvalue() == f"{line}\n"
    assert list(recorded.events_of([journal.to_json(event)])) == [event]


class Gone(Terminal):
    """A terminal that somebody closes."""

    gone = False

    def write(self, text: str) -> int:
        if self.gone:
            raise OSError(5, "Input/output error")
        return super().write(text)


def test_a_terminal_that_goes_away_while_it_says_what_is_waited_for_ends_nothing() -> None:
    stream = Gone()
    shown = RichScreen(stream, 80)
    shown.wait("waiting")
    stream.gone = True
    shown.line("more")
    shown.wait("waiting")
    shown.code("x = 1")
    shown.close()
