"""Suites of tasks: each a function that returns its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.suites import small_tasks
from benchmarks.task import Task

SUITES: Mapping[str, Callable[[], list[Task]]] = {"small-tasks": small_tasks.tasks}
