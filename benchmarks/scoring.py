"""Judges an attempt again, from its trace: no model is asked, no tool is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.attempts import Attempt
from benchmarks.suites.base import Called, Task, check
from codeact.errors import UsageError
from codeact.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class Recorded:
    """A world as an attempt left it."""

    log: Sequence[Called]
    left: Any

    def tools(self) -> Sequence[Tool]:
        return []

    def state(self) -> Any:
        return self.left


def rescored(task: Task, made: Attempt, trace: Sequence[Mapping[str, Any]]) -> Attempt:
    """The attempt with the verdict that the task gives now. Raises UsageError for a trace without an outcome, and for one of
    another task than this is now: it was asked something else."""
    began = next((line for line in trace if line.get("type") == "attempt"), {})
    outcome = next((line for line in trace if line.get("type") == "outcome"), None)
    if outcome is None:
        raise UsageError(f"the trace of {made.task} ({made.arm}, repeat {made.repeat}) has no outcome")
    if "question" in began and began["question"] != task.question:
        raise UsageError(f"{made.task}: its question is another one now; run it again")
    world = Recorded([Called(**call) for call in outcome["calls"]], outcome["state"])
    verdict = check(task, outcome["answer"], world)
    return dataclasses.replace(
        made,
        success=verdict.success,
        answer_ok=verdict.answer_ok,
        state_ok=verdict.state_ok,
        side_effect=verdict.side_effect,
        reason=verdict.reason,
        recovered=bool(verdict.success and made.errors),
    )
