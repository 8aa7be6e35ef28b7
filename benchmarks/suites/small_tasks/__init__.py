"""Twelve easy questions over small generated files. The questions name no columns: the manifest does."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.task import Task

FOLDER = Path(__file__).parent


def tasks() -> list[Task]:
    lines = (FOLDER / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Task(
            id=task["id"],
            question=task["question"],
            data={Path(name).name: FOLDER / name for name in task["files"]},
            answer=task["answer"],
            tolerance=task["tolerance"],
        )
        for task in map(json.loads, lines)
    ]
