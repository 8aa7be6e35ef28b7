"""What the commands of `python -m benchmarks` do."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks import afterwards, runner
from benchmarks.arms import ARMS, PEERS
from benchmarks.attempts import Attempt
from benchmarks.models import Price, Sampling, providers, read_prices
from benchmarks.oracle import NAME as ORACLE
from benchmarks.oracle import oracle
from benchmarks.performing import ByArm, Performer, Performing
from benchmarks.plan import Job, Limits, Plan, estimates
from benchmarks.runner import Progress
from benchmarks.store import REDACTED, Store, address, redacted, secrets
from benchmarks.suites import FOREIGN, OWN, Split, suite
from benchmarks.suites.base import Task
from codeact.errors import UsageError
from codeact.models import resolve
from codeact.tools.tool import Tool
from codeact.types import Model
from sandbox.held import scratch_folder

DONE, USAGE, INFRA_LEFT, LIMIT, INTERRUPTED = 0, 1, 2, 3, 130
ORACLE_TURNS, ORACLE_TOKENS = 1_000, 1_000_000_000
PeerMaker = Callable[[Path], Performer]
"""What makes the attempts of a peer, with a folder that is thrown away."""
SPLITS: tuple[Split, ...] = ("dev", "test")


@dataclass(frozen=True, slots=True)
class Asked:
    """The flags of `run`."""

    suite: str
    out: Path
    split: Split = "test"
    model: str | None = None
    arms: str = "code"
    repeats: int = 1
    jobs: int = 1
    path: Path | None = None
    categories: str = ""
    tasks: Sequence[str] = ()
    limit: int | None = None
    max_turns: int | None = None
    token_limit: int | None = None
    time_limit: float | None = None
    cost_limit: float | None = None
    cost_limit_task: float | None = None
    max_retries: int = 5
    temperature: float | None = None
    seed: int = 7
    base_url: str | None = None
    prices: Path | None = None
    allow_drift: bool = False
    dry_run: bool = False

    def plan(self) -> Plan:
        return Plan(
            suite=self.suite,
            split=self.split,
            model=self.model,
            arms=_arms(self.arms),
            repeats=self.repeats,
            seed=self.seed,
            path=self.path,
            limits=self._limits(),
            sampling=Sampling(self.temperature, self.seed),
            max_retries=self.max_retries,
            categories=tuple(_words(self.categories)),
            only=tuple(self.tasks),
            limit=self.limit,
            prices=read_prices(self.prices) if self.prices else read_prices(),
        )

    def _limits(self) -> Limits:
        """Those of the tasks are for models; the reference solution makes one call after the other, as many as it needs."""
        turns, tokens = self.max_turns, self.token_limit
        if self.model == ORACLE:
            turns, tokens = turns or ORACLE_TURNS, tokens or ORACLE_TOKENS
        return Limits(turns, self.time_limit, tokens, self.cost_limit_task)


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _arms(text: str) -> tuple[str, ...]:
    names, known = _words(text), ", ".join((*ARMS, *PEERS))
    if unknown := [name for name in names if name not in ARMS and name not in PEERS]:
        raise UsageError(f"--arms: there is no arm {unknown[0]!r}; there are {known}")
    if not names:
        raise UsageError(f"--arms: name at least one of {known}")
    return tuple(names)


# -- looking ----------------------------------------------------------------------------------------------------------


def list_suites(name: str | None, split: Split, path: Path | None) -> None:
    if name is not None:
        for task in suite(name, split, None, path):
            afterwards.put(f"{task.id}  {task.category or '-'}  {' '.join(task.question.split())[:80]}")
        return
    for own in OWN:
        counts = {len(suite(own, each)) for each in SPLITS}
        shown = (
            " + ".join(f"{len(suite(own, each))} {each}" for each in SPLITS)
            if len(counts) > 1
            else f"{counts.pop()}"
        )
        click.echo(f"{own}  {shown} tasks")
    for other in FOREIGN:
        click.echo(f"{other}  from your copy: --path")


def show(task_id: str, name: str | None, path: Path | None) -> None:
    task = _find(task_id, name, path)
    limits = task.limits
    facts = {
        "suite": f"{task.suite} {task.version}",
        "category": task.category,
        "template": task.template,
        "question": task.question,
        "data": ", ".join(task.data),
        "answer's schema": json.dumps(task.schema),
        "right answer": json.dumps(task.gold_answer, ensure_ascii=False),
        "tolerance": task.tolerance,
        "changes": "; ".join(task.gold_changes) or "none",
        "must not change anything": ", ".join(task.forbidden),
        "limits": f"{limits.turns} turns, {limits.seconds:g} s, {limits.tokens} tokens",
        "hash": task.hash,
    }
    for what, value in facts.items():
        if value not in ("", None):
            click.echo(f"{what}: {value}")
    for tool in task.start(0.0).tools():
        click.echo(f"  {tool.signature}")


def _find(task_id: str, name: str | None, path: Path | None) -> Task:
    for each in [name] if name else OWN:
        for split in SPLITS:
            for task in suite(each, split, None, path):
                if task.id == task_id:
                    return task
    raise UsageError(f"there is no task {task_id!r}; `list -s SUITE` names those of a suite")


# -- running ----------------------------------------------------------------------------------------------------------


def run(asked: Asked) -> int:
    plan = asked.plan()
    if not plan.tasks:
        raise UsageError(f"{plan.suite} ({plan.split}): no task is left to run; ask for fewer restrictions")
    if asked.dry_run:
        name = asked.model or resolve(None, base_url=asked.base_url, on_progress=_say).name
        _say_estimates(plan, plan.prices.find(name))
        return DONE
    model = _model(asked)
    name = ORACLE if model is None else model.name
    price = plan.prices.find(name)
    if price is None and (asked.cost_limit or asked.cost_limit_task):
        raise UsageError(f"--cost-limit: the price of {name} is not known; give a table with --prices")
    peers = _peers(asked, plan, model, price)
    store = Store(asked.out)
    with store.held():
        store.begin(_about(plan, name, asked), allow_drift=asked.allow_drift)
        jobs, known = plan.jobs(name), {made.key for made in store.attempts() if made.scored}
        left = [job for job in jobs if job.key not in known]
        spent = store.spent()
        if len(left) < len(jobs):
            _say(f"{len(jobs) - len(left)} of {len(jobs)} attempts are done already")
        if not left:
            outcome = None
        else:
            outcome = _perform(asked, plan, model, price, left, store, spent, peers)
            store.update(last=_last(outcome, asked.jobs))
    afterwards.report(asked.out)
    return DONE if outcome is None else _code(outcome)


def _model(asked: Asked) -> Model | None:
    """The model that all attempts share; None for the oracle, which has a script for each."""
    if asked.model == ORACLE:
        return None
    return resolve(asked.model, base_url=asked.base_url, attempts=asked.max_retries, on_progress=_say)


def _about(plan: Plan, model: str, asked: Asked) -> dict[str, Any]:
    """The configuration of a run, with the flags that `resume` needs beside it; paths from wherever that is called."""
    flags = {
        each.name: getattr(asked, each.name)
        for each in dataclasses.fields(Asked)
        if each.name not in ("out", "dry_run", "allow_drift")
    }
    if asked.base_url is not None:
        flags["base_url"] = address(asked.base_url, secrets(os.environ))
    return {
        **plan.about(model),
        "providers": providers(model, asked.base_url),
        "asked": json.loads(json.dumps(flags, default=lambda path: str(path.absolute()))),
    }


def asked_of(folder: Path, **changes: Any) -> dict[str, Any]:
    """The flags that a run was asked for with last, with those of `changes` that are not None in place of them. Raises UsageError
    where there is no run, and where it does not tell."""
    match Store(folder).about():
        case {"asked": {"suite": str()} as asked}:
            given = {
                name: value for each in (asked, changes) for name, value in each.items() if value is not None
            }
            if REDACTED in str(given.get("base_url")):
                raise UsageError(
                    f"{folder}: its endpoint's address held a secret, which is not kept; give --base-url again"
                )
            return given | {"out": str(folder)}
    raise UsageError(f"{folder}: does not say what it was asked for; give the whole command again")


def _perform(
    asked: Asked,
    plan: Plan,
    model: Model | None,
    price: Price | None,
    jobs: Sequence[Job],
    store: Store,
    spent: float,
    peers: Mapping[str, PeerMaker],
) -> runner.Outcome:
    def model_of(job: Job, tools: Sequence[Tool]) -> AbstractContextManager[Model]:
        return nullcontext(model) if model is not None else oracle(job.task, job.arm, tools)

    with scratch_folder() as folder, runner.warm_pool(plan.arms, asked.jobs) as pool:
        own = Performing(plan, model_of, price, pool, folder)
        performer: Performer = ByArm(own, {name: made(folder) for name, made in peers.items()})
        outcome = runner.run(
            jobs,
            performer,
            store,
            workers=asked.jobs,
            cost_limit=asked.cost_limit,
            spent=spent,
            on_done=_say_done,
        )
    _say_outcome(outcome, asked.jobs)
    return outcome


def _peers(asked: Asked, plan: Plan, model: Model | None, price: Price | None) -> dict[str, PeerMaker]:
    """What makes the attempts of the arms that are other packages. Raises UsageError where the model has no endpoint."""
    from benchmarks.peers import smolagents

    if smolagents.NAME not in plan.arms:
        return {}
    name, small = (ORACLE, False) if model is None else (model.name, model.small)
    where = smolagents.endpoint(name, asked.base_url, small, _say)
    command = smolagents.command(_say)
    return {smolagents.NAME: partial(smolagents.Smolagents, plan, where, name, price, command)}


def _last(outcome: runner.Outcome, jobs: int) -> dict[str, Any]:
    return {
        "seconds": round(outcome.seconds, 2),
        "jobs": jobs,
        "attempts": outcome.progress.done,
        "attempt_seconds": round(outcome.progress.busy, 2),
        "infra_failures": outcome.progress.failed,
    }


def _code(outcome: runner.Outcome) -> int:
    if outcome.interrupted:
        return INTERRUPTED
    if outcome.cost_reached:
        return LIMIT
    return INFRA_LEFT if outcome.open else DONE


def _say_done(made: Attempt, progress: Progress) -> None:
    verdict = {True: "right", False: "wrong", None: "failed"}[made.success]
    if made.scored and not made.success and made.stop_reason != "submitted":
        verdict += f" ({made.stop_reason})"
    cost = f"  ${progress.cost:.2f} so far" if progress.cost_known and progress.cost else ""
    left = progress.left()
    time_left = "" if left is None or progress.done == progress.total else f"  {duration(left)} left"
    why = f"  {made.error}" if not made.scored and made.error else ""
    _say(
        f"[{progress.done}/{progress.total}] {made.task} {made.arm} {made.repeat}  {verdict}  "
        f"{made.llm_calls} calls  {made.wall_s:.1f} s{cost}{time_left}{why}"
    )


def _say_outcome(outcome: runner.Outcome, jobs: int) -> None:
    if outcome.cost_reached:
        _say(
            f"the cost limit was reached with {outcome.open} attempts left; the same command with a higher one carries on"
        )
    elif outcome.interrupted:
        _say(f"interrupted with {outcome.open} attempts left; the same command carries on")
    elif outcome.open:
        why = (
            f"no more were begun after {runner.IN_A_ROW} in a row that the infrastructure failed: {outcome.gave_up}"
            if outcome.gave_up
            else "the infrastructure failed"
        )
        _say(f"{outcome.open} attempts have no verdict, since {why}; the same command carries on with them")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _say_estimates(plan: Plan, price: Price | None) -> None:
    found = estimates(plan, price)
    for each in found:
        cost = "cost not known" if each.cost is None else f"{each.cost[0]:.2f} to {each.cost[1]:.2f} USD"
        click.echo(
            f"{each.arm:12} {each.attempts:5} attempts  {each.calls[0]:,} to {each.calls[1]:,} model calls  "
            f"{each.tokens[0]:,} to {each.tokens[1]:,} tokens  {cost}"
        )
    total = (
        ""
        if price is None
        else f", {sum(e.cost[0] for e in found if e.cost):.2f} to {sum(e.cost[1] for e in found if e.cost):.2f} USD"
    )
    click.echo(
        f"{len(plan.tasks)} tasks, {len(plan.arms)} arms, {plan.repeats} repeats: {sum(e.attempts for e in found)} attempts{total}"
    )


def _say(line: str) -> None:
    try:
        click.echo(redacted(line, secrets(os.environ)), err=True)
    except BrokenPipeError:  # nobody reads how far it is: the attempts go on, and are stored
        pass
