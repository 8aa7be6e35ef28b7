"""Judges an attempt again, from its trace: no model is asked, no tool is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.attempts import Attempt
from benchmarks.suites.base import Called, Task, check
from codeact import schema
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
    if "question" in began and began["question"] != task.question:
        raise UsageError("its question is another one now; run it again")
    answer, world = _outcome(trace)
    verdict = check(task, answer, world)
    return dataclasses.replace(
        made,
        success=verdict.success,
        answer_ok=verdict.answer_ok,
        state_ok=verdict.state_ok,
        side_effect=verdict.side_effect,
        reason=verdict.reason,
        recovered=bool(verdict.success and made.errors),
    )


def _outcome(trace: Sequence[Mapping[str, Any]]) -> tuple[Any, Recorded]:
    """What an attempt answered, and the world as it left it."""
    match next((line for line in trace if line.get("type") == "outcome"), None):
        case {"answer": answer, "state": state, "calls": [*calls]}:
            try:
                return answer, Recorded([schema.decode(Called, call) for call in calls], state)
            except (TypeError, ValueError) as error:
                raise UsageError(f"its trace is damaged: {error}") from error
    raise UsageError("its trace has no outcome")
