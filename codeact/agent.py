"""The agent: a task and data in, events out, an answer at the end.

One turn: the log becomes messages, the model replies, the reply is read, its code runs, what it did is observed. The
loop is `Agent._turns`; what the steps do is in `run/`.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codeact import events
from codeact.actions.styles import FENCED, style
from codeact.answers import AnswerCheck
from codeact.errors import CodeActError, NoAnswer, UsageError
from codeact.home import runs_dir
from codeact.journal import FILE
from codeact.models import resolve
from codeact.models.replay import find_journal
from codeact.run import Run, Setup
from codeact.run.replay import Replay
from codeact.run.resume import Standing, check_data, standing
from codeact.tools import approval, policy, runner
from codeact.tools.approval import Approval, Ask, Mode, Permit
from codeact.tools.context import RunContext
from codeact.types import ActionStyle, Model, OnDeath, Result, RunLimits
from sandbox import Limits, Network, Pool, SandboxError
from sandbox.types import BackendName

MAX_UNREADABLE = 5
"""Replies in a row that cannot be read, after which a run ends."""


class Agent:
    """Answers tasks by letting a model act in code. One agent may be used for many runs.

    `model` is a model, or a name as for the command line. `limits` end a run; `sandbox_limits` and `cell_timeout` (seconds) bound its code. `output_schema` is a JSON Schema that
    an answer must fit. `network` are the hosts that the code may reach, `packages` those that it has beside the image's, both
    as `Sandbox` takes them; `backend` is what contains the code; `on_progress` gets a line for each step while packages are added, and one where
    the code is contained by something weaker than an engine. `tools` is what code in the sandbox may call on the host, as `codeact.tools.load.tools_from` takes it, but for those whose path or
    namespace is in `tools_off`. `actions` is how the model acts: in blocks of code (`fenced`), in code as the argument of a function (`python-tool`), or by calling
    the tools itself (`functions`): several at the same time, or with `parallel_calls=False` one a turn; then `run_python` adds a
    function that runs code, which is so by default where a run has data. `approve` says which calls are asked about (`never`, `writes`, `always`), or is the function that is
    asked before a call that writes; `permit` is asked before each, with `context`: who the runs are for. When a kernel dies, `on_death` says whether its state is made again (`restore`), the
    next one starts without it (`fresh`), or the run ends (`stop`). `started_with` is recorded among the run's settings, for whoever resumes it: no secrets. Artifacts are copied to `out`, or stay in the run's folder below `runs`.
    With `pool` each run takes a sandbox of it, and what the pool says of image, limits, network, packages, runtime and backend counts.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        limits: RunLimits | None = None,
        output_schema: dict[str, Any] | None = None,
        image: str = "data",
        sandbox_limits: Limits | None = None,
        cell_timeout: float = 60.0,
        backend: BackendName = "auto",
        runtime: str | None = None,
        network: str | Iterable[str] | Network | None = None,
        packages: Iterable[str] = (),
        pool: Pool | None = None,
        actions: ActionStyle = "fenced",
        parallel_calls: bool = True,
        run_python: bool | None = None,
        tools: Any = (),
        tools_off: Sequence[str] = (),
        approve: Approval | Mode | Ask = "writes",
        permit: Permit | None = None,
        context: RunContext | None = None,
        on_death: OnDeath = "restore",
        started_with: Mapping[str, Any] | None = None,
        on_progress: Callable[[str], None] = lambda line: None,
        out: Path | None = None,
        runs: Path | None = None,
    ) -> None:
        self._context = context or RunContext()
        if pool is not None:
            image, sandbox_limits, network, packages, runtime, backend = _of_pool(pool)
        self._setup = Setup(
            model=resolve(model) if isinstance(model, str) else model,
            style=FENCED,
            limits=limits or RunLimits(),
            check=AnswerCheck(output_schema),
            image=image,
            sandbox_limits=sandbox_limits or Limits(),
            cell_timeout=cell_timeout,
            backend=backend,
            runtime=runtime,
            network=network if network is None or isinstance(network, Network) else Network.parse(network),
            packages=tuple(packages),
            pool=pool,
            tools=_tools(tools, tools_off, approval.approval(approve), permit),
            on_death=on_death,
            started_with=dict(started_with or {}),
            on_progress=on_progress,
            out=out,
            runs=runs or runs_dir(),
        )
        self._actions, self._parallel_calls, self._run_python = actions, parallel_calls, run_python
        self._styled(data=False)
        self._active: list[Run] = []
        self._lock = threading.Lock()

    def run(
        self,
        task: str,
        data: Mapping[str, Path | str] | None = None,
        *,
        observers: Sequence[Callable[[events.Event], None]] = (),
        context: RunContext | None = None,
    ) -> Result:
        """Runs a task to its end. A run that began ends with a result, whatever happens; what keeps it from beginning
        (no engine, no image, bad data) raises."""
        return _consumed(self.stream(task, data, context=context), observers)

    def resume(
        self,
        run: str | Path,
        task: str | None = None,
        *,
        changed_data: bool = False,
        observers: Sequence[Callable[[events.Event], None]] = (),
        context: RunContext | None = None,
    ) -> Result:
        """Carries a run on that was cut off, or that ended without an answer; with `task`, any that ended. `run` is an id, a
        folder or a `run.jsonl`. Its variables and files are made again, and no call of a tool is made twice. The limits
        count from here. `changed_data` allows for data that is not what it was.

        Raises UsageError for a run that cannot be carried on: unknown, live, answered, or with other data.
        """
        stream = self.resume_stream(run, task, changed_data=changed_data, context=context)
        return _consumed(stream, observers)

    def replay(self, run: str | Path) -> Replay:
        """Executes the cells of a run again, without a model and without calling a tool, and compares what comes out.

        Raises UsageError for a run that is unknown, or whose data is not what it was.
        """
        at = self._standing(run)
        check_data(at.data, at.started.settings.get("inputs", {}), changed=False)
        again = Run(self._as_recorded(at), None, at.data, self._context, at)
        with self._running(again):
            return again.replay()

    def stream(
        self,
        task: str,
        data: Mapping[str, Path | str] | None = None,
        *,
        context: RunContext | None = None,
    ) -> Iterator[events.Event]:
        """The events of a run as they happen, `RunEnded` last. `data` are files and folders by the name that they get in
        the sandbox; `context` is who this run is for, where it is not who the agent is for. Raises ModelError or SandboxError, after `RunEnded` where the run had begun."""
        if not task.strip():
            raise UsageError("the task is empty: say what is to be found out or done")
        inputs = {name: Path(path) for name, path in (data or {}).items()}
        for path in inputs.values():
            if not path.exists():
                raise UsageError(f"{path}: there is no such file or folder")
        run = Run(self._styled(data=bool(inputs)), task, inputs, context or self._context)
        with self._running(run):
            yield from run.play(self._turns(run))

    def resume_stream(
        self,
        run: str | Path,
        task: str | None = None,
        *,
        changed_data: bool = False,
        context: RunContext | None = None,
    ) -> Iterator[events.Event]:
        """The events of a run that is carried on, from there, as `stream` gives them; see `resume`."""
        if task is not None and not task.strip():
            raise UsageError("the task is empty: say what is to be found out or done")
        at = self._standing(run)
        if at.ended is not None and at.ended.status == "answered" and task is None:
            raise UsageError(f"{at.run}: has ended with its answer; give a task to carry it on with")
        check_data(at.data, at.started.settings.get("inputs", {}), changed=changed_data)
        again = Run(self._as_recorded(at), task, at.data, context or self._context, at)
        with self._running(again):
            yield from again.play_on(self._turns(again))

    def _standing(self, run: str | Path) -> Standing:
        known = self._setup.runs / run
        return standing(known if (known / FILE).is_file() else find_journal(str(run)))

    def _styled(self, *, data: bool) -> Setup:
        """With the way of acting of a run; `data`: it has some, which functions reach through code alone."""
        run_python = data if self._run_python is None else self._run_python
        if self._actions == "functions" and data and not run_python:
            raise UsageError("data is read by code, and run_python is off: leave one of them out")
        return self._acting(self._actions, run_python=run_python, parallel=self._parallel_calls)

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
        """Interrupts the turn of each run that is under way; called once more, or with `end`, which says why, ends the runs. Safe in signal handlers."""
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


def _of_pool(pool: Pool) -> tuple[Any, ...]:
    """What the sandboxes of a pool are; an agent that takes them has no say in it."""
    settings = pool.settings
    return (
        pool.image,
        settings.get("limits"),
        settings.get("network"),
        settings.get("packages", ()),
        settings.get("runtime"),
        settings.get("backend", "auto"),
    )


def _tools(source: Any, off: Sequence[str], approval: Approval, permit: Permit | None) -> runner.Setup:
    from codeact.tools.load import tools_from  # what reads sources is loaded where there are some

    tools = policy.without(tools_from(source), off) if source else ()
    return runner.Setup(tools, approval, permit, policy.Guards(tools))


def _consumed(stream: Iterator[events.Event], observers: Sequence[Callable[[events.Event], None]]) -> Result:
    """A run to its end. What keeps it from beginning is raised; later, it is in the result."""
    seen: list[events.Event] = []
    try:
        for event in stream:
            seen.append(event)
            for observer in observers:
                observer(event)
    except (CodeActError, SandboxError):
        if not seen or not isinstance(seen[-1], events.RunEnded):
            raise
    return _result(seen)


def _result(seen: Sequence[events.Event]) -> Result:
    ended = seen[-1]
    assert isinstance(ended, events.RunEnded)
    return Result(
        answer=ended.answer,
        status=ended.status,
        run=ended.run,
        usage=ended.usage,
        artifacts=ended.artifacts,
        error=ended.error,
        seconds=ended.seconds,
        events=tuple(seen),
    )
