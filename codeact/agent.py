"""The agent: a task and data in, events out, an answer at the end.

One turn: the log becomes messages, the model replies, the reply is read, its code runs, what it did is observed. The
loop is `Agent._turns`; what the steps do is in `run/`.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, overload

from typing_extensions import Unpack

from codeact import checks, events
from codeact.actions.styles import FENCED, style
from codeact.answers import AnswerCheck, Check
from codeact.carried import carried
from codeact.errors import NoAnswer, UsageError
from codeact.given import Inputs
from codeact.home import runs_dir
from codeact.journal import FILE
from codeact.models import model_of
from codeact.models.replay import find_journal
from codeact.options import Options
from codeact.outcome import Observer, awaited, check_task, consumed
from codeact.paths import is_file
from codeact.run import Run, Setup
from codeact.run.replay import Replay
from codeact.run.resume import Standing, check_data, check_given, standing
from codeact.session import Session
from codeact.tools import approval, policy, runner
from codeact.tools.approval import Approval, Ask, Mode
from codeact.tools.context import RunContext
from codeact.types import ActionStyle, Model, Result, RunLimits, T
from codeact.views import notebook
from sandbox import Limits, Network, Pool
from sandbox.given import a, read_once
from sandbox.types import parse_size

MAX_UNREADABLE = 5
"""Replies in a row that cannot be read, after which a run ends."""


class Agent(Generic[T]):
    """Answers tasks by letting a model act in code. One agent may be used for many runs, at once and from many threads.

    `model` is a model, or a name as for the command line. With `output_type` an answer is of that type, as `Result.answer`
    says: whatever pydantic's TypeAdapter takes, a DataFrame of pandas or polars, or a pyarrow.Table. `Options` has the rest.
    """

    @overload
    def __init__(
        self: Agent[Any], model: Model | str, *, output_type: None = None, **options: Unpack[Options]
    ) -> None: ...

    @overload
    def __init__(self, model: Model | str, *, output_type: type[T], **options: Unpack[Options]) -> None: ...

    @overload
    def __init__(self, model: Model | str, *, output_type: Any, **options: Unpack[Options]) -> None: ...

    def __init__(self, model: Model | str, *, output_type: Any = None, **options: Unpack[Options]) -> None:
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            raise TypeError(
                f"Agent got {', '.join(sorted(unknown))}, which it does not know; see codeact.options"
            )
        options = {**options, **_read_once(options)}
        checks.check_options(options)
        pool = options.get("pool")
        if pool is not None:
            options = {**options, **_of_pool(pool)}
        network = options.get("network")
        size, out = options.get("runs_size", "5g"), options.get("out")
        say = options.get("on_progress", notebook.progress)
        self._context = options.get("context") or RunContext()
        self._setup = Setup(
            model=model_of(model, say),
            style=FENCED,
            limits=options.get("limits") or RunLimits(),
            check=_check(output_type, options.get("output_schema")),
            image=options.get("image", "data"),
            sandbox_limits=options.get("sandbox_limits") or Limits(),
            cell_timeout=options.get("cell_timeout", 60.0),
            backend=options.get("backend", "auto"),
            runtime=options.get("runtime"),
            network=network if network is None or isinstance(network, Network) else Network.parse(network),
            packages=tuple(options.get("packages", ())),
            pool=pool,
            tools=_tools(options),
            on_death=options.get("on_death", "restore"),
            started_with=dict(options.get("started_with") or {}),
            on_progress=say,
            out=None if out is None else out.absolute(),
            runs=(options.get("runs") or runs_dir()).absolute(),
            runs_size=None if size is None else parse_size(size),
            show=options.get("show", True),
        )
        self._options = options
        self._styled(data=False)
        self._active: list[Run] = []
        self._lock = threading.Lock()

    # -- one task --------------------------------------------------------------------------------------------------

    def run(
        self,
        task: str,
        data: Mapping[str, Any] | None = None,
        *,
        observers: Sequence[Observer] = (),
        context: RunContext | None = None,
    ) -> Result[T]:
        """Runs a task to its end. A run that began ends with a result, whatever happens; what keeps it from beginning
        (no engine, no image, bad data) raises. `data` and `context` are as in `stream`."""
        run, stream = self._new(task, data, context)
        return consumed(run, stream, run.interrupt, observers)

    async def arun(
        self,
        task: str,
        data: Mapping[str, Any] | None = None,
        *,
        observers: Sequence[Observer] = (),
        context: RunContext | None = None,
    ) -> Result[T]:
        """As `run`, without blocking the event loop. Cancelling the task that awaits it ends the run."""
        run, stream = self._new(task, data, context)
        return await awaited(run, stream, run.interrupt, observers)

    def stream(
        self, task: str, data: Mapping[str, Any] | None = None, *, context: RunContext | None = None
    ) -> Generator[events.Event, None, None]:
        """The events of a run as they happen, `RunEnded` last. Of `data`, each Path is a file or a folder that lies in the
        sandbox's `data/` by its name there; any other value is a variable of that name: tables, arrays, texts, bytes, and what
        JSON has. `context` is who this run is for, where it is not who the agent is for.

        Raises UsageError for bad data; ModelError or SandboxError, after `RunEnded` where the run had begun.
        """
        return self._new(task, data, context)[1]

    def astream(
        self, task: str, data: Mapping[str, Any] | None = None, *, context: RunContext | None = None
    ) -> AsyncGenerator[events.Event, None]:
        """As `stream`, without blocking the event loop. Whoever stops reading ends the run."""
        run, stream = self._new(task, data, context)
        return carried(stream, run.interrupt)

    def _new(
        self, task: str, data: Mapping[str, Any] | None, context: RunContext | None
    ) -> tuple[Run, Generator[events.Event, None, None]]:
        check_task(task)
        checks.check_context(context)
        inputs = Inputs.of(data)
        run = Run(self._styled(data=bool(data)), inputs, context or self._context)
        return run, self._within(run, lambda: run.play(task, self._turns(run)))

    def _within(
        self, run: Run, play: Callable[[], Iterator[events.Event]]
    ) -> Generator[events.Event, None, None]:
        with self._running(run), run.opened():
            yield from play()

    # -- more than one ---------------------------------------------------------------------------------------------

    def session(
        self, data: Mapping[str, Any] | None = None, *, context: RunContext | None = None
    ) -> Session[T]:
        """Many tasks in one kernel, in a `with` or `async with` block, or until its `close()`; `data` and `context` are as in `stream`."""
        checks.check_context(context)
        inputs = Inputs.of(data)
        run = Run(self._styled(data=bool(data), more=True), inputs, context or self._context)
        return Session(run, self._turns, self._running)

    def resume(
        self,
        run: str | Path,
        task: str | None = None,
        *,
        changed_data: bool = False,
        observers: Sequence[Observer] = (),
        context: RunContext | None = None,
    ) -> Result[T]:
        """Carries a run on that was cut off, or that ended without an answer; with `task`, any that ended. `run` is an id, a
        folder or a `run.jsonl`. Its variables and files are made again, and no call of a tool is made twice. The limits
        count from here. `changed_data` allows for data that is not what it was.

        Raises UsageError for a run that cannot be carried on: unknown, live, answered, or with other data.
        """
        again, stream = self._again(run, task, changed_data, context)
        return consumed(again, stream, again.interrupt, observers)

    def resume_stream(
        self,
        run: str | Path,
        task: str | None = None,
        *,
        changed_data: bool = False,
        context: RunContext | None = None,
    ) -> Generator[events.Event, None, None]:
        """The events of a run that is carried on, from there, as `stream` gives them; see `resume`."""
        return self._again(run, task, changed_data, context)[1]

    def _again(
        self, run: str | Path, task: str | None, changed_data: bool, context: RunContext | None
    ) -> tuple[Run, Generator[events.Event, None, None]]:
        if task is not None:
            check_task(task)
        checks.check_context(context)
        checks.check("changed_data", changed_data, a(bool), "True or False")
        at = self._standing(run)
        if at.ended is not None and at.ended.status == "answered" and task is None:
            raise UsageError(f"{at.run}: has ended with its answer; give a task to carry it on with")
        check_data(at.data, at.inputs, changed=changed_data)
        check_given(at.given)
        again = Run(self._as_recorded(at), Inputs.of(None), context or self._context, at)
        return again, self._within(again, lambda: again.play_on(task, self._turns(again)))

    def replay(self, run: str | Path) -> Replay:
        """Executes the cells of a run again, without a model and without calling a tool, and compares what comes out.

        Raises UsageError for a run that is unknown, or whose data is not what it was.
        """
        at = self._standing(run)
        check_data(at.data, at.inputs, changed=False)
        check_given(at.given)
        again = Run(self._as_recorded(at), Inputs.of(None), self._context, at)
        with self._running(again):
            return again.replay()

    def _standing(self, run: str | Path) -> Standing:
        checks.check("run", run, a(str, Path), "the id of a run, or the Path of its folder")
        known = self._setup.runs / run
        return standing(known if is_file(known / FILE) else find_journal(str(run)))

    def _styled(self, *, data: bool, more: bool = False) -> Setup:
        """With the way of acting of a run; `data`: it has some, which functions reach through code alone; `more`: some may
        come."""
        actions, chosen = self._options.get("actions", "fenced"), self._options.get("run_python")
        run_python = data or more if chosen is None else chosen
        if actions == "functions" and data and not run_python:
            raise UsageError("data is read by code, and run_python is off: leave one of them out")
        return self._acting(
            actions, run_python=run_python, parallel=self._options.get("parallel_calls", True)
        )

    def _acting(self, actions: ActionStyle, *, run_python: bool, parallel: bool) -> Setup:
        tools, schema = self._setup.tools.tools, self._setup.check.schema
        made = style(actions, tools, schema, run_python=run_python, parallel=parallel)
        return dataclasses.replace(self._setup, style=made)

    def _as_recorded(self, at: Standing) -> Setup:
        """What a run needs to go on as it began: its way of acting, the image and packages of its cells. All else is the
        agent's."""
        settings = at.started.settings
        acting = self._acting(
            settings.get("actions", "fenced"),
            run_python=settings.get("run_python") is True,
            parallel=settings.get("parallel_calls") is not False,
        )
        return dataclasses.replace(
            acting,
            image=str(settings.get("image", self._setup.image)),
            packages=tuple(map(str, settings.get("packages", self._setup.packages))),
        )

    @contextmanager
    def _running(self, run: Run) -> Iterator[None]:
        with self._lock:
            self._active.append(run)
        try:
            yield
        finally:
            with self._lock:
                self._active.remove(run)

    def interrupt(self, end: str = "") -> None:
        """Interrupts the turn of each run that is under way; called once more, with `end`, which says why, or before its first
        turn, ends the run: as soon as its sandbox is up, where that is starting. Safe in signal handlers."""
        for run in list(self._active):
            run.interrupt(end)

    def _turns(self, run: Run) -> Iterator[events.Event]:
        unreadable = 0
        for turn in itertools.count(run.first_turn):
            run.check_limits(turn)
            yield run.emit(events.TurnStarted(turn=turn))
            reading = yield from run.ask(turn)
            if reading.problem is not None:
                unreadable += 1
                if unreadable == MAX_UNREADABLE:
                    raise NoAnswer(f"{unreadable} replies in a row could not be read")
                yield run.observe(turn, reading.problem)
                continue
            unreadable = 0
            if reading.acts:
                yield from run.execute(turn, reading)
            else:
                yield from run.take_words(turn, reading.thoughts)


def _read_once(options: Options) -> Options:
    """The options that may be read only once, read."""
    read: Options = {}
    if "packages" in options:
        read["packages"] = read_once(options["packages"])
    if "network" in options:
        read["network"] = read_once(options["network"])
    return read


def _of_pool(pool: Pool) -> Options:
    """What the sandboxes of a pool are; an agent that takes them has no say in it."""
    settings = pool.settings
    return {
        "image": pool.image,
        "sandbox_limits": settings.get("limits"),
        "network": settings.get("network"),
        "packages": settings.get("packages", ()),
        "runtime": settings.get("runtime"),
        "backend": settings.get("backend", "auto"),
    }


def _check(output_type: Any, schema: dict[str, Any] | None) -> Check:
    if output_type is None:
        return AnswerCheck(schema)
    if schema is not None:
        raise UsageError("output_type and output_schema are both given; leave one of them out")
    from codeact.typed import TypedCheck  # what knows types is loaded where there is one

    return TypedCheck(output_type)


def _tools(options: Options) -> runner.Setup:
    asked, permit = _approval(options.get("approve", "writes")), options.get("permit")
    source = options.get("tools", ())
    if not source:
        return runner.Setup((), asked, permit)
    from codeact.tools import names, stubs  # what reads sources is loaded where there are some
    from codeact.tools.load import tools_from

    tools = policy.without(tools_from(source), options.get("tools_off", ()))
    stubs.check(tools)
    for name in names.moved(tool.path for tool in tools):
        if say := options.get("on_progress"):
            say(f"{name[:-1]} is called tools.{name} in code: that name is one that `tools` has itself")
    return runner.Setup(tools, asked, permit, policy.Guards(tools))


def _approval(given: Approval | Mode | Ask) -> Approval:
    """Who is asked: in a notebook, where nobody else is named, the person in front of it."""
    found = approval.approval(given)
    if found.ask is not None or not notebook.here():
        return found
    from codeact.views.notebook import live

    return Approval(found.mode, live.ask, by="person", one_at_a_time=True)
