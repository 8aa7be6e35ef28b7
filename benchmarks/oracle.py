"""`-m scripted:oracle`: the reference solution of a task, as a model that says it in the way of each arm."""

from __future__ import annotations

from benchmarks.arms import ARMS
from benchmarks.suites.base import Task
from codeact.models import ScriptedModel
from codeact.types import Model

NAME = "scripted:oracle"


def oracle(task: Task, arm: str) -> Model:
    """A model for one attempt at the task."""
    assert ARMS[arm].actions == "fenced"
    cell = task.oracle.cell() if task.oracle else f"final_answer({task.gold_answer!r})"
    return ScriptedModel([f"```python\n{cell}\n```"], NAME)
