"""Twelve easy questions over small generated files. The questions name no columns: the manifest does."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from benchmarks import task as plain
from benchmarks.suites.base import Task
from benchmarks.suites.files import STATE, Files

FOLDER = Path(__file__).parent
NAME, VERSION = "small-tasks", "1"


def suite() -> list[Task]:
    return [
        Task(
            id=task.id,
            suite=NAME,
            version=VERSION,
            question=task.question,
            schema={"type": "string" if isinstance(task.answer, str) else "number"},
            gold_answer=task.answer,
            gold_state=STATE,
            template=task.id,
            tolerance=task.tolerance,
            data=task.data,
            latency=0.0,
            world=functools.partial(Files, task.data),
        )
        for task in tasks()
    ]


def tasks() -> list[plain.Task]:
    lines = (FOLDER / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        plain.Task(
            id=task["id"],
            question=task["question"],
            data={Path(name).name: FOLDER / name for name in task["files"]},
            answer=task["answer"],
            tolerance=task["tolerance"],
        )
        for task in map(json.loads, lines)
    ]
