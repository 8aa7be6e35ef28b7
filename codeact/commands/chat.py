"""`codeact chat`: question after question, in the same kernel."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codeact import data
from codeact.commands.invocation import (
    ANSWERED,
    ENDING,
    INTERRUPTED,
    Invocation,
    as_json,
    exit_code,
    fail,
    load_settings,
    outcome,
    put,
    result_code,
    say,
)
from codeact.commands.solve import (
    TASK_BYTES,
    drawing,
    make_agent,
    mcp_servers,
    prepare_out,
    read_schema,
    report,
    settings_options,
)
from codeact.errors import CodeActError, UsageError

if TYPE_CHECKING:
    from codeact.commands.talk import Talk
    from codeact.config import Settings
    from codeact.session import Session
    from codeact.views.console import View


@click.command()
@settings_options()
@click.pass_obj
def chat(invocation: Invocation, /, **flags: Any) -> int:
    """Ask question after question in the same kernel. What one makes, the next ones use.

    At a terminal, /help lists what else there is; Ctrl-C ends the question and keeps what it made, Ctrl-D ends the chat. In a
    pipe each line is a question, and its answer goes to standard output.
    """
    settings = load_settings(flags)
    invocation.json = settings.json
    invocation.debug = invocation.debug or settings.debug
    if any(map(data.reads_stdin, settings.data)):
        raise UsageError("--data -: standard input is what the chat reads; save it to a file, and name that")
    inputs = data.collect(settings.data, sys.stdin.buffer, Path())
    schema = read_schema(settings.output_schema)
    out = prepare_out(settings.out)
    with drawing(settings) as view, mcp_servers(settings) as servers:
        agent = make_agent(settings, schema, out, view, servers, 0)
        with agent.session(inputs) as session:
            return _talk(session, settings, view)


def _talk(session: Session, settings: Settings, view: View | None) -> int:
    from codeact.commands.talk import Talk

    talk = Talk(
        session,
        settings,
        observers=[view.in_chat] if view else [],
        report=lambda result: report(result, settings),
        tell=view.say if view else say,
    )
    person = sys.stdin.isatty() and sys.stderr.isatty()
    code = _with_person(talk, session) if person else _filter(talk, settings)
    if session.begun:
        say(f"carry this chat on with `codeact resume {session.id} TASK`")
    return code


# -- at a terminal ---------------------------------------------------------------------------------------------------


def _with_person(talk: Talk, session: Session) -> int:
    from codeact.commands.line import Line

    line = Line(talk.names)
    say("/help lists what there is beside questions; Ctrl-D ends the chat")
    ended = threading.Event()
    with _handled(ENDING, lambda number: _leave(number, ended)):
        while not talk.over and not ended.is_set():
            try:
                text = line.read()
            except KeyboardInterrupt:  # the line is given up
                continue
            except EOFError:
                break
            with _stopping(session, ended), _said():
                talk.take(text)
    return INTERRUPTED if ended.is_set() else ANSWERED


def _leave(number: int, ended: threading.Event) -> None:
    """What a signal does between questions: Ctrl-C, which came too late for one, does nothing."""
    if number != signal.SIGINT:
        ended.set()
        raise KeyboardInterrupt


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """An error is said, and the chat goes on."""
    from sandbox import SandboxError

    try:
        yield
    except (CodeActError, SandboxError) as error:
        fail(str(error))


@contextlib.contextmanager
def _stopping(session: Session, ended: threading.Event) -> Iterator[None]:
    """Ctrl-C ends the question; pressed once more, and by any other signal to end, the chat."""
    pressed = 0

    def handle(number: int) -> None:
        nonlocal pressed
        pressed += 1
        if number != signal.SIGINT or pressed > 1:
            ended.set()
        if pressed > 2:
            raise KeyboardInterrupt
        # not in the handler itself: the code that it stops may hold the locks that this needs
        threading.Thread(target=session.interrupt, args=("stopped by the person",), daemon=True).start()

    with _handled(ENDING, handle):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[int], handle: Callable[[int], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda number, frame: handle(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- in a pipe -------------------------------------------------------------------------------------------------------


def _filter(talk: Talk, settings: Settings) -> int:
    """Each line of standard input; the exit code is that of the last one that came to nothing."""
    from sandbox import SandboxError

    code = ANSWERED
    for text in _lines():
        try:
            if text is None:
                raise UsageError(
                    "a line is too long for a question; pass it with --data, and say what to do with it"
                )
            result = talk.take(text)
        except (CodeActError, SandboxError) as error:
            fail(str(error))
            code = exit_code(type(error).__name__)
            if text is None or not text.startswith("/"):
                put(as_json(outcome(None, str(error))) if settings.json else "")
            continue
        if result is not None:
            code = result_code(result) or code
            if result.status != "answered" and not settings.json:
                put("")  # a line for each question, so that both can be read side by side
        if talk.over:
            break
    return code


def _lines() -> Iterator[str | None]:
    """Those of standard input; None for one that is too long."""
    while line := sys.stdin.buffer.readline(TASK_BYTES + 1):
        if len(line) <= TASK_BYTES:
            yield line.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r\n")
            continue
        while line and not line.endswith(b"\n"):
            line = sys.stdin.buffer.readline(TASK_BYTES)
        yield None
