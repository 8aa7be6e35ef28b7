"""Makes one attempt of a plan, in a world and a sandbox of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks import arms
from benchmarks.attempts import Attempt, StopReason, measured, redundant
from benchmarks.models import Price, Watched
from benchmarks.plan import Job, Plan, now
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

CHARACTERS_PER_TOKEN = 4
MOST_SAID = 300
"""Characters of what a fault of the harness says."""


class Unusable(CodeActError):
    """The model cannot be asked at all: no attempt would end otherwise."""


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
            cost_usd=None if self._price is None else self._price.of(result.usage),
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
