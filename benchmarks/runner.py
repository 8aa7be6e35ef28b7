"""Makes the attempts of a plan, several at once, each in a world and a sandbox of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks import arms
from benchmarks.attempts import Attempt, StopReason, measured, redundant
from benchmarks.models import Price, Watched
from benchmarks.plan import Job, Plan, now
from benchmarks.store import Store
from benchmarks.suites.base import World, changes, check
from codeact import journal
from codeact.agent import Agent
from codeact.errors import (
    CodeActError,
    ModelAuthError,
    ModelNotFound,
    ModelRefused,
    ScriptEnded,
)
from codeact.events import LimitReached
from codeact.tools.definitions import schema
from codeact.tools.prompt import describe
from codeact.tools.tool import Tool
from codeact.types import Model, Result
from sandbox import Pool, SandboxError

TRIES = 3
"""Of an attempt that the infrastructure failed, in one run of the command."""
IN_A_ROW = 8
"""Attempts that the infrastructure failed one after the other, after which no more are begun."""
WARM = 4
"""Sandboxes that wait, at most."""
CHARACTERS_PER_TOKEN = 4
MOST_SAID = 300
"""Characters of what a fault of the harness says."""


class Unusable(CodeActError):
    """The model cannot be asked at all: no attempt would end otherwise."""


class Unwritten(CodeActError):
    """The disk does not take what was made."""


@dataclass(frozen=True, slots=True)
class Made:
    """An attempt with its trace."""

    attempt: Attempt
    trace: Sequence[Mapping[str, Any]] = ()


def broken(job: Job, error: BaseException) -> Made:
    """An attempt that could not be made, judged or written, by a fault of the harness or of its suite."""
    said = " ".join(f"the harness failed: {type(error).__name__}: {error}".split())[:MOST_SAID]
    return Made(
        Attempt(**job.named, model=job.model, error=said, started=now()),
        [{"type": "broken", "traceback": "".join(traceback.format_exception(error))}],
    )


class Performer(Protocol):
    """Makes one attempt. Raises Unusable; whatever else it raises counts as a failure of the infrastructure."""

    def __call__(self, job: Job) -> Made: ...

    def interrupt(self) -> None:
        """Ends what is under way, as soon as may be. From any thread."""


class Performing:
    """Attempts of the arms of `codeact`. `model_of` is the model for an attempt with its tools: one for all, or a script of its own."""

    def __init__(
        self,
        plan: Plan,
        model_of: Callable[[Job, Sequence[Tool]], contextlib.AbstractContextManager[Model]],
        price: Price | None,
        pool: Pool | None,
        scratch: Path,
    ) -> None:
        self._plan, self._model_of, self._price, self._pool = plan, model_of, price, pool
        self._scratch = scratch
        self._active: set[Agent] = set()

    def interrupt(self) -> None:
        for agent in list(self._active):
            agent.interrupt("the benchmark was interrupted")

    def __call__(self, job: Job) -> Made:
        task, arm = job.task, arms.ARMS[job.arm]
        asked_for = arms.question(arm, task)
        world = task.start()
        before = world.state()
        tools = world.tools()
        started, began, clock = now(), time.time(), time.monotonic()
        with self._model_of(job, tools) as asked:
            sampling, limits = self._plan.sampling.of(job.repeat), self._plan.limits
            model = Watched(asked, sampling, self._price, limits.cost)
            agent = arms.agent(arm, model, task, tools, limits.of(task), self._pool, self._scratch)
            self._active.add(agent)
            try:
                result, failure = _run(agent, asked_for, arms.data(arm, task))
            finally:
                self._active.discard(agent)
        wall = time.monotonic() - clock
        if isinstance(failure, ModelAuthError | ModelNotFound) and not isinstance(failure, ScriptEnded):
            raise Unusable(str(failure))
        stop = stop_reason(result, failure, cost_cut=model.cut)
        scored = stop not in ("infra_error", "interrupted")
        verdict = check(task, result.answer, world) if scored else None
        figures = measured(result.events, began, wall, boxed=arm.runs_code)
        made = Attempt(
            **job.named,
            model=model.name,
            success=verdict.success if verdict else None,
            answer_ok=verdict.answer_ok if verdict else None,
            state_ok=verdict.state_ok if verdict else None,
            side_effect=verdict.side_effect if verdict else None,
            reason=verdict.reason if verdict else "",
            answer=result.answer,
            stop_reason=stop,
            error=result.error,
            llm_calls=result.usage.calls,
            prompt_tokens=result.usage.prompt_tokens,
            cached_prompt_tokens=result.usage.cached_tokens,
            completion_tokens=result.usage.completion_tokens,
            reasoning_tokens=result.usage.reasoning_tokens,
            tokens_estimated=result.usage.estimated,
            tool_definition_tokens=definition_tokens(arm, tools),
            cost_usd=model.cost,
            redundant_calls=redundant(world.log),
            recovered=bool(verdict and verdict.success and figures["errors"]),
            run=result.run,
            started=started,
            **figures,
        )
        return Made(made, list(self._trace(job, result, world, before)))

    def _trace(self, job: Job, result: Result, world: World, before: Any) -> Iterator[dict[str, Any]]:
        """What the attempt was, event by event, and what it left: enough to judge it again."""
        yield {
            "type": "attempt",
            "key": job.key,
            "suite": self._plan.suite,
            "task": job.task.id,
            "task_hash": job.task.hash,
            "question": job.task.question,
            "arm": job.arm,
            "repeat": job.repeat,
        }
        folder = self._scratch / result.run
        if result.run and folder.is_dir():
            yield from journal.read(folder)
            shutil.rmtree(folder, ignore_errors=True)
        yield outcome_of(result.answer, world, before)


def outcome_of(answer: Any, world: World, before: Any) -> dict[str, Any]:
    """The last line of a trace: what an attempt answered, and what it left of the state `before`."""
    after = world.state()
    return {
        "type": "outcome",
        "answer": answer,
        "state": after,
        "changes": changes(before, after),
        "calls": [
            {
                "tool": call.tool,
                "arguments": dict(call.arguments),
                "changed": call.changed,
                "error": call.error,
                "seconds": call.seconds,
            }
            for call in world.log
        ],
    }


class ByArm:
    """Attempts of our own arms, and of others where there is something for them."""

    def __init__(self, own: Performer, others: Mapping[str, Performer]) -> None:
        self._own, self._others = own, others

    def __call__(self, job: Job) -> Made:
        return self._others.get(job.arm, self._own)(job)

    def interrupt(self) -> None:
        for each in (self._own, *self._others.values()):
            each.interrupt()


def _run(
    agent: Agent, question: str, data: Mapping[str, Path]
) -> tuple[Result, CodeActError | SandboxError | None]:
    """How a run ended, and what made it fail, if that is how."""
    seen: list[Any] = []
    failure: CodeActError | SandboxError | None = None
    try:
        for event in agent.stream(question, data):
            seen.append(event)
    except (CodeActError, SandboxError) as error:
        failure = error
    ended = seen[-1] if seen else None
    if ended is None or ended.type != "run_ended":
        return Result(None, "failed", run="", error=str(failure), events=tuple(seen)), failure
    return (
        Result(
            ended.answer, ended.status, ended.run, ended.usage, (), ended.error, ended.seconds, tuple(seen)
        ),
        failure,
    )


def stop_reason(result: Result, failure: Exception | None, *, cost_cut: bool) -> StopReason:
    """Why an attempt ended. A request that the endpoint refuses, such as one that is too long, is the arm's own doing, and so is
    the end of a script."""
    match result.status:
        case "answered":
            return "submitted"
        case "no_answer":
            return "refused"
        case "interrupted":
            return "interrupted"
        case "limit":
            limits = [event.limit for event in result.events if isinstance(event, LimitReached)]
            known: dict[str, StopReason] = {"tokens": "token_limit", "seconds": "time_limit"}
            return known.get(limits[-1] if limits else "turns", "turn_limit")
    if cost_cut:
        return "cost_limit"
    return "refused" if isinstance(failure, ModelRefused | ScriptEnded) else "infra_error"


def definition_tokens(arm: arms.Arm, tools: Sequence[Tool]) -> int:
    """About how many tokens of each request say what the tools are."""
    text = describe(tools) if arm.actions == "fenced" else "".join(json.dumps(schema(tool)) for tool in tools)
    return -(-len(text) // CHARACTERS_PER_TOKEN)


# -- many of them -----------------------------------------------------------------------------------------------------


@dataclass
class Progress:
    """What has been done so far of what there is to do."""

    total: int
    done: int = 0
    right: int = 0
    failed: int = 0
    cost: float = 0.0
    cost_known: bool = True
    busy: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float | None:
        """Seconds until all is done, at the pace so far."""
        if not self.done:
            return None
        return (time.monotonic() - self.began) / self.done * (self.total - self.done)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the command ended. `open` are attempts without a verdict."""

    progress: Progress
    open: int
    cost_reached: bool = False
    interrupted: bool = False
    gave_up: str = ""
    seconds: float = 0.0


def run(
    jobs: Sequence[Job],
    performer: Performer,
    store: Store,
    *,
    workers: int,
    cost_limit: float | None = None,
    spent: float = 0.0,
    on_done: Callable[[Attempt, Progress], None] = lambda made, progress: None,
) -> Outcome:
    """Makes attempts, in their order, and stores each. Once `cost_limit` (USD, with what was `spent` before) is reached, no more
    are begun. What goes wrong within one attempt ends no more than that one. Raises Unusable, and Unwritten where the disk does
    not take an attempt; what was under way is stored before, as far as that goes."""
    queue, lock = deque((job, 1) for job in jobs), threading.Lock()
    progress = Progress(len(jobs), cost=spent)
    state = _State()

    def next_job() -> tuple[Job, int] | None:
        with lock:
            if state.stopped or not queue:
                return None
            if cost_limit is not None and progress.cost >= cost_limit:
                state.cost_reached = True
                return None
            return queue.popleft()

    def work() -> None:
        while (taken := next_job()) is not None:
            job, tried = taken
            try:
                made = performer(job)
            except Unusable as error:
                state.end(error)
                return
            except BaseException as error:  # noqa: BLE001 - SystemExit too: nothing that an attempt meets ends the others
                made = broken(job, error)
            with lock:
                if made.attempt.stop_reason == "interrupted":
                    return
                try:
                    made = _stored(store, job, made)
                except OSError as error:
                    state.end(_unwritten(store, error))
                    return
                if state.count(made.attempt, progress) and tried < TRIES:
                    queue.append((job, tried + 1))
                on_done(made.attempt, progress)

    interrupted = False
    with ThreadPoolExecutor(workers, thread_name_prefix="attempt") as pool:
        futures = [pool.submit(work) for _ in range(min(workers, len(jobs)))]
        try:
            for future in futures:
                future.result()
        except KeyboardInterrupt:
            interrupted = state.stopped = True
            performer.interrupt()
            performer.interrupt()
    if state.ended is not None:
        raise state.ended
    seconds = time.monotonic() - progress.began
    return Outcome(
        progress, progress.total - progress.done, state.cost_reached, interrupted, state.gave_up, seconds
    )


def _stored(store: Store, job: Job, made: Made) -> Made:
    """What was written of an attempt: that it could not be, where it holds what cannot. Raises OSError."""
    try:
        store.append(made.attempt, made.trace)
    except (ValueError, TypeError, RecursionError) as error:
        made = broken(job, error)
        store.append(made.attempt, made.trace)
    return made


def _unwritten(store: Store, error: OSError) -> Unwritten:
    return Unwritten(
        f"{store.folder}: cannot be written: {error.strerror or error}; mend that, and the same command carries on"
    )


@dataclass
class _State:
    stopped: bool = False
    cost_reached: bool = False
    gave_up: str = ""
    in_a_row: int = 0
    ended: CodeActError | None = None

    def end(self, error: CodeActError) -> None:
        """No more attempts are begun."""
        self.ended = self.ended or error
        self.stopped = True

    def count(self, made: Attempt, progress: Progress) -> bool:
        """Counts an attempt; whether the infrastructure failed it."""
        progress.cost += made.cost_usd or 0.0
        progress.cost_known &= made.cost_usd is not None
        progress.busy += made.wall_s
        if made.scored:
            self.in_a_row = 0
            progress.done += 1
            progress.right += bool(made.success)
            return False
        progress.failed += 1
        self.in_a_row += 1
        if self.in_a_row >= IN_A_ROW:
            self.stopped = True
            self.gave_up = made.error or "the infrastructure failed"
        return True


@contextlib.contextmanager
def warm_pool(names: Sequence[str], workers: int) -> Iterator[Pool | None]:
    """Sandboxes that are started before they are wanted, where an arm runs code."""
    from codeact.workspace import warm

    if not any(name in arms.ARMS and arms.ARMS[name].runs_code for name in names):
        yield None
        return
    with Pool(arms.IMAGE, size=min(workers, WARM), prepare=warm) as pool:
        yield pool
