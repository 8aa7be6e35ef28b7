"""`codeact solve`: one task, to an answer."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from codeact import config, data
from codeact.commands.invocation import (
    ENDING,
    Invocation,
    answer_alone,
    as_json,
    fail,
    load_settings,
    outcome,
    put,
    result_code,
)
from codeact.config import Settings
from codeact.errors import UsageError

if TYPE_CHECKING:
    from codeact.agent import Agent
    from codeact.events import Event
    from codeact.tools.approval import Approval, Mode
    from codeact.tools.tool import Tool
    from codeact.types import ActionStyle, OnDeath, Result
    from codeact.views.console import View
    from sandbox.types import BackendName

TASK_BYTES = 1024 * 1024


def settings_options(*left_out: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A flag for each setting but those left out; values stay as written, for `config.load` to read."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed([name for name in config.KINDS if name not in left_out]):
            command = _option(name)(command)
        return command

    return add


def _option(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    kind = config.KINDS[name]
    switch = kind is config.SWITCH
    return click.option(
        config.flag(name),
        name,
        is_flag=switch,
        default=None,
        multiple=kind.many,
        metavar=None if switch else kind.metavar,
        help=_help(name),
    )


def _help(name: str) -> str:
    default = config.DEFAULTS[name]
    if default in (None, (), False):
        return config.HELP[name]
    shown = f"{default:g}" if isinstance(default, float) else default
    return f"{config.HELP[name]} (default: {shown})"


@click.command(
    epilog="Each flag can be set in codeact.toml (max_turns = 5) and as a variable (CODEACT_MAX_TURNS=5); a flag beats the variable, which beats the file."
)
@click.argument("task")
@settings_options()
@click.pass_obj
def solve(invocation: Invocation, /, task: str, **flags: Any) -> int:
    """Solve one TASK.

    Its answer goes to standard output, all else to standard error.

    TASK is the text itself, @FILE to read it from a file, or - to read it from standard input.
    """
    settings = load_settings(flags)
    invocation.json = settings.json
    invocation.debug = invocation.debug or settings.debug
    if not any(map(data.reads_stdin, settings.data)):
        return _solve(task, settings, Path())
    from sandbox.held import scratch_folder

    with scratch_folder() as scratch:
        return _solve(task, settings, scratch)


def _solve(task: str, settings: Settings, scratch: Path) -> int:
    text = read_task(task, settings.data)
    inputs = data.collect(settings.data, sys.stdin.buffer, scratch)
    schema = read_schema(settings.output_schema)
    return play(settings, schema, lambda agent, observers: agent.run(text, inputs, observers=observers))


def play(
    settings: Settings,
    schema: dict[str, Any] | None,
    go: Callable[[Agent, list[Callable[[Event], None]]], Result],
    had: int = 0,
) -> int:
    """Makes an agent of settings, lets it go and reports; the exit code. `had` is how many replies of its model the run
    has had."""
    out = prepare_out(settings.out)
    with drawing(settings) as view, answer_alone(), mcp_servers(settings) as servers:
        agent = make_agent(settings, schema, out, view, servers, had)
        with _signals(agent, view) as begun:
            observers: list[Callable[[Event], None]] = [lambda event: begun.set()]
            if view:
                observers.append(view)
            result = go(agent, observers)
    report(result, settings)
    return result_code(result)


def read_task(task: str, specs: Sequence[str]) -> str:
    """The text of a task that is given as itself, `@FILE` or `-`. Raises UsageError."""
    if task == "-" and any(map(data.reads_stdin, specs)):
        raise UsageError("--data -: the task is read from standard input already; write the task as @FILE")
    if task == "-":
        text = _decoded("standard input", sys.stdin.buffer.read(TASK_BYTES + 1))
    elif task.startswith("@"):
        text = _decoded(task, read_file(Path(task[1:]).expanduser(), "task file", TASK_BYTES + 1))
    else:
        text = os.fsencode(task).decode("utf-8", "replace")  # whatever the locale is
    if not text.strip():
        raise UsageError("TASK: is empty; write what is to be found out or done")
    return text


def _decoded(name: str, content: bytes) -> str:
    if len(content) > TASK_BYTES:
        raise UsageError(
            f"{name}: is too long for a task; pass it with --data, and say in TASK what to do with it"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: is not UTF-8 text; save it as such, or pass it with --data") from None


def read_file(path: Path, what: str, limit: int = -1) -> bytes:
    """At most `limit` bytes of a file that the user named. Raises UsageError."""
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(
            f"{path}: the {what} cannot be read: {reason}; check the path (from {Path.cwd()})"
        ) from None


def read_schema(path: Path | None) -> dict[str, Any] | None:
    """The JSON Schema in a file. Raises UsageError; whether its keywords are used rightly is for the agent to say."""
    if path is None:
        return None
    from jsonschema import Draft202012Validator

    try:
        schema = json.loads(read_file(path, "output schema"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not JSON: {error}; mend it there") from None
    if not isinstance(schema, dict) or not schema.keys() & Draft202012Validator.VALIDATORS.keys():
        raise UsageError(f'{path}: is not a JSON Schema; write one such as {{"type": "number"}}')
    return schema


def prepare_out(folder: Path | None) -> Path | None:
    """The folder for artifacts, made and tried before anything is spent on a run. Raises UsageError."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder.absolute()
    except FileExistsError:
        raise UsageError(f"--out {folder}: is not a folder; name another") from None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"--out {folder}: cannot be written: {reason}; name another folder") from None


@contextmanager
def drawing(settings: Settings) -> Iterator[View | None]:
    if settings.quiet:
        yield None
        return
    from codeact.views.console import View, screen

    view = View(screen(sys.stderr), show_answer=sys.stderr.isatty() and not sys.stdout.isatty())
    try:
        yield view
    finally:
        view.close()


@contextmanager
def mcp_servers(settings: Settings) -> Iterator[Iterable[Tool]]:
    """The tools of the MCP servers, which run meanwhile."""
    if settings.mcp is None:
        yield ()
        return
    from codeact.tools.mcp_servers import McpServers

    with McpServers(settings.mcp) as servers:
        yield servers


def approval(settings: Settings, view: View | None) -> Approval:
    """Who is asked about calls: the person, where there is a terminal to read from and one to draw on."""
    from codeact.tools.approval import Approval

    mode = cast("Mode", settings.approve)
    if settings.yes:
        return Approval(mode, lambda request: True, by="policy")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return Approval(mode)
    from codeact.views.console import View, screen
    from codeact.views.prompt import Prompt

    prompt = Prompt(view or View(screen(sys.stderr)), sys.stdin)
    return Approval(mode, prompt.ask, by="person", one_at_a_time=True)


def make_agent(
    settings: Settings,
    schema: dict[str, Any] | None,
    out: Path | None,
    view: View | None,
    servers: Iterable[Tool],
    had: int,
    say: Callable[[str], None] | None = None,
) -> Agent:
    """The agent of settings. `say` gets lines of progress where there is no view."""
    from codeact import models
    from codeact.agent import Agent
    from codeact.types import RunLimits
    from sandbox.types import Limits

    if len(settings.model) > 1:
        raise UsageError(
            "--model: is given more than once, and fallback models are not supported yet; name one"
        )
    tell = view.say if view else say or (lambda line: None)
    model = models.resolve(
        settings.model[0] if settings.model else None,
        base_url=settings.base_url,
        api_key=settings.api_key,
        on_progress=tell,
    )
    if had and isinstance(model, models.ScriptedModel):
        model.skip(had)
    return Agent(
        model,
        limits=RunLimits(settings.max_turns, settings.max_seconds, settings.max_tokens),
        output_schema=schema,
        image=settings.image,
        sandbox_limits=Limits(
            memory=settings.memory, cpus=settings.cpus, pids=settings.pids, disk=settings.disk
        ),
        cell_timeout=settings.cell_timeout,
        backend=cast("BackendName", settings.sandbox),
        runtime=settings.runtime,
        network=settings.network,
        packages=settings.pip,
        actions=cast("ActionStyle", settings.actions),
        tools=[*settings.tools, *servers],
        tools_off=settings.tools_off,
        approve=approval(settings, view),
        on_death=cast("OnDeath", settings.on_death),
        started_with=started_with(settings),
        on_progress=tell,
        out=out,
        runs_size=settings.runs_size,
        show=not settings.quiet,
    )


def started_with(settings: Settings) -> dict[str, Any]:
    """What the record needs beside what the agent itself knows, so that the run can be carried on from any folder."""
    url = settings.base_url or os.environ.get("OPENAI_BASE_URL")
    return {
        "base_url": config.endpoint(url) if url else None,
        "tools": [_absolute(spec) for spec in settings.tools],
        "mcp": str(settings.mcp.absolute()) if settings.mcp else None,
        "tools_off": list(settings.tools_off),
        "approve": settings.approve,
        "found": list(settings.reaching),
    }


def _absolute(spec: str) -> str:
    """A file of tools as it is found from anywhere; a module stays as it is."""
    path, colon, name = spec.rpartition(":")
    file = Path(path if colon else spec).expanduser()
    return f"{file.absolute()}{colon}{name if colon else ''}" if file.suffix == ".py" else spec


@contextmanager
def _signals(agent: Agent, view: View | None) -> Iterator[threading.Event]:
    """Ctrl-C ends the turn, and pressed again the run; other signals to end end the run. What the run holds is removed.

    Before the event that is given is set, there is nothing to end but the command; pressed a third time, nothing else
    is wanted.
    """
    begun = threading.Event()
    pressed = 0

    def end_turn() -> None:
        agent.interrupt()  # first: a question on the screen ends with it, and is in the way of the next line
        if view:
            view.say("interrupting this turn; press Ctrl-C again to end the run")

    def handle(number: int, frame: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 2 or not begun.is_set():
            raise KeyboardInterrupt
        why = "ended by the person" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        act = end_turn if number == signal.SIGINT and pressed == 1 else lambda: agent.interrupt(why)
        # not in the handler itself: the code that it stops may hold the locks that these need
        threading.Thread(target=act, daemon=True).start()

    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield begun
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report(result: Result, settings: Settings) -> None:
    """The answer to standard output; what went wrong, one line each, to standard error."""
    from codeact.events import Error

    for event in result.events:
        if isinstance(event, Error) and event.message != result.error:
            fail(event.message)
    if result.status == "failed":
        fail(result.error or "the run failed")
    elif result.status != "answered":
        on = f"go on with `codeact resume {result.run}`, or see"
        mend = on if result.status in ("limit", "interrupted") else "see"
        reason = result.error or result.status.replace("_", " ")
        fail(f"run {result.run}: {reason}; {mend} `codeact show {result.run}`")
    if settings.json:
        put(as_json(outcome(result)))
    elif result.status == "answered":
        put(printed(result.answer))


def printed(answer: Any) -> str:
    """An answer as standard output gets it: text as it is, but for what a terminal would obey."""
    from sandbox.text import clean

    if not isinstance(answer, str):
        return as_json(answer)
    return clean(answer) if sys.stdout.isatty() else answer
