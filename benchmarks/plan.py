"""What a run is to do: its frozen configuration, the attempts that it is made of, and what they may come to."""

from __future__ import annotations

import dataclasses
import os
import platform
import random
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.arms import ARMS, Arm, prompt, settings
from benchmarks.attempts import SCHEMA_VERSION, attempt_key
from benchmarks.models import MILLION, Price, Prices, Sampling
from benchmarks.suites import Split, suite
from benchmarks.suites.base import Task, digest, suite_hash
from codeact import __version__
from codeact.errors import UsageError
from codeact.types import RunLimits

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one attempt; what is None is the task's own."""

    turns: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None

    def of(self, task: Task) -> RunLimits:
        own = task.limits
        return RunLimits(
            turns=own.turns if self.turns is None else self.turns,
            seconds=own.seconds if self.seconds is None else self.seconds,
            tokens=own.tokens if self.tokens is None else self.tokens,
        )


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt that is to be made."""

    task: Task
    arm: str
    repeat: int
    key: str
    model: str = ""

    @property
    def named(self) -> dict[str, Any]:
        """The fields of an attempt that say which one it is."""
        task = self.task
        return {
            "key": self.key,
            "suite": task.suite,
            "task": task.id,
            "template": task.template,
            "category": task.category,
            "size": task.size,
            "arm": self.arm,
            "repeat": self.repeat,
        }


@dataclass(frozen=True)
class Plan:
    """What was asked for. `model` is the name as it was given."""

    suite: str
    split: Split
    model: str | None
    arms: tuple[str, ...]
    repeats: int = 1
    seed: int = 0
    path: Path | None = None
    limits: Limits = field(default_factory=Limits)
    sampling: Sampling = field(default_factory=Sampling)
    max_retries: int = 5
    categories: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    limit: int | None = None
    prices: Prices = field(default_factory=lambda: Prices("none", {}))

    @cached_property
    def whole(self) -> tuple[Task, ...]:
        """All tasks of the suite. Raises UsageError."""
        return suite(self.suite, self.split, None, self.path)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that were asked for. Raises UsageError for a task or a category that the suite does not have."""
        for kind, wanted, known in (
            ("task", self.only, {task.id for task in self.whole}),
            ("category", self.categories, {task.category for task in self.whole}),
        ):
            if missing := sorted(set(wanted) - known):
                shown = ", ".join(sorted(known)[:20]) or "none"
                raise UsageError(f"{self.suite} ({self.split}) has no {kind} {missing[0]!r}; it has {shown}")
        chosen = [
            task
            for task in self.whole
            if (not self.only or task.id in self.only)
            and (not self.categories or task.category in self.categories)
        ]
        return tuple(chosen if self.limit is None else spread(chosen, self.limit))

    @cached_property
    def prompts(self) -> Mapping[str, str]:
        """What each arm says before tools and task."""
        return {name: prompt(ARMS[name]) if name in ARMS else "" for name in self.arms}

    def params(self) -> dict[str, Any]:
        """What a result depends on beside task, arm and model."""
        return {
            "limits": dataclasses.asdict(self.limits),
            "sampling": dataclasses.asdict(self.sampling),
            "max_retries": self.max_retries,
        }

    def jobs(self, model: str) -> list[Job]:
        """All attempts, in an order that the seed shuffles: what changes with time hits all arms alike."""
        params, prompts = self.params(), {name: digest(text) for name, text in self.prompts.items()}
        made = [
            Job(
                task,
                arm,
                repeat,
                attempt_key(
                    suite=self.suite,
                    task=task.id,
                    task_hash=task.hash,
                    arm=arm,
                    model=model,
                    params=params,
                    prompt=prompts[arm],
                    repeat=repeat,
                    schema=SCHEMA_VERSION,
                ),
                model,
            )
            for repeat in range(1, self.repeats + 1)
            for task in self.tasks
            for arm in self.arms
        ]
        random.Random(self.seed).shuffle(made)
        return made

    def about(self, model: str) -> dict[str, Any]:
        """`run.json` of a run that begins now."""
        git = _git()
        frozen = {
            "schema": SCHEMA_VERSION,
            "suite": self.suite,
            "suite_versions": sorted({task.version for task in self.whole}),
            "suite_hash": suite_hash(self.whole),
            "split": self.split,
            "seed": self.seed,
            "model": model,
            **self.params(),
            "prompts": {name: digest(text) for name, text in self.prompts.items()},
            "prices": self.prices.version,
            "commit": git["commit"],
            "codeact": __version__,
        }
        return {
            "run": time.strftime("%Y%m%d-%H%M%S", time.gmtime()),
            "started": now(),
            "frozen": frozen,
            "plan": {
                "arms": list(self.arms),
                "repeats": self.repeats,
                "categories": list(self.categories),
                "tasks": list(self.only),
                "limit": self.limit,
                "model": self.model,
                "path": str(self.path.absolute()) if self.path else None,
            },
            "arms": {name: settings(ARMS[name]) for name in self.arms if name in ARMS},
            "prompt_texts": dict(self.prompts),
            "prompt_date": git["prompt_date"],
            "uncommitted": git["uncommitted"],
            "machine": {
                "python": platform.python_version(),
                "system": f"{platform.system()} {platform.release()}",
                "processors": os.cpu_count(),
            },
        }


def spread(tasks: Sequence[Task], limit: int) -> list[Task]:
    """So many tasks, taken from each category in turn."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.category, []).append(task)
    taken: list[Task] = []
    for place in range(max(map(len, groups.values()), default=0)):
        taken += [group[place] for group in groups.values() if place < len(group)]
    kept = {task.id for task in taken[:limit]}
    return [task for task in tasks if task.id in kept]


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _git() -> dict[str, Any]:
    """The commit that runs, when its prompts changed last, and whether files differ from it; unknown outside a checkout."""

    def said(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changed = said("status", "--porcelain", "--untracked-files=no")
    return {
        "commit": said("rev-parse", "HEAD"),
        "prompt_date": said("log", "-1", "--format=%cs", "--", "codeact/prompts"),
        "uncommitted": None if changed is None else bool(changed),
    }


# -- what it may come to ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of one arm, for all its attempts: least and most. A cost is None where the price is not known."""

    arm: str
    attempts: int
    calls: tuple[int, int]
    tokens: tuple[int, int]
    cost: tuple[float, float] | None


PROMPT_TOKENS = 1_500
TURN_TOKENS = (150, 900)
"""Of one turn, least and most: what the model writes, and what it is shown after it."""
WRITTEN = 0.5
"""The share of it that the model writes."""


def estimates(plan: Plan, price: Price | None) -> list[Estimate]:
    """Least: one turn does it, or in an arm with a call a turn as many as the task needs. Most: three times as many, up to the
    limit. Each turn sends what came before."""
    found = []
    for name in plan.arms:
        arm = ARMS.get(name, ARMS["code"])
        bounds = [_turns(task, arm, plan.limits.of(task).turns or 20) for task in plan.tasks]
        calls = tuple(sum(turns) * plan.repeats for turns in zip(*bounds, strict=True)) or (0, 0)
        tokens = tuple(
            sum(_tokens(turns[side], TURN_TOKENS[side]) for turns in bounds) * plan.repeats for side in (0, 1)
        )
        written = [count * each * WRITTEN for count, each in zip(calls, TURN_TOKENS, strict=True)]
        cost = (
            None
            if price is None
            else tuple(
                ((whole - own) * price.prompt + own * price.completion) / MILLION
                for whole, own in zip(tokens, written, strict=True)
            )
        )
        found.append(Estimate(name, len(plan.tasks) * plan.repeats, calls, tokens, cost))  # type: ignore[arg-type]
    return found


def _turns(task: Task, arm: Arm, most: int) -> tuple[int, int]:
    needed = max(1, task.calls_min)
    if arm.actions == "fenced":
        return 1, min(most, 6)
    return min(most, 2 if arm.parallel else needed + 1), min(most, 3 * needed + 2)


def _tokens(turns: int, each: int) -> int:
    return turns * PROMPT_TOKENS + each * turns * (turns + 1) // 2
