"""InfiAgent-DABench: questions about CSV files with answers in a closed form.

`path` holds da-dev-questions.jsonl, da-dev-labels.jsonl and da-dev-tables/. Left out are questions whose concepts name
machine learning: their answers depend on versions of libraries.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from benchmarks.suites.adapters import reading
from benchmarks.suites.base import Task
from benchmarks.suites.files import STATE, Files

NAME, VERSION = "dabench", "1"
QUESTIONS, LABELS, TABLES = "da-dev-questions.jsonl", "da-dev-labels.jsonl", "da-dev-tables"
TOLERANCE = 1e-6
"""As in the original scorer."""


def suite(path: Path, seed: int | None = None) -> list[Task]:
    """Raises UsageError for a folder that is no copy of it."""
    root = reading.folder(path, "InfiAgent-DABench", QUESTIONS, LABELS, TABLES)
    labels = {
        reading.field(told, "id", root / LABELS): reading.field(told, "common_answers", root / LABELS)
        for told in reading.lines(root / LABELS)
    }
    questions = reading.lines(root / QUESTIONS)
    return [
        _task(told, labels[told["id"]], root)
        for told in questions
        if reading.field(told, "id", root / QUESTIONS) in labels
        and "Machine Learning" not in reading.field(told, "concepts", root / QUESTIONS)
    ]


def _task(told: dict[str, Any], answers: list[Any], root: Path) -> Task:
    gold: dict[str, str] = dict(answers)
    file = reading.inside(root / TABLES, reading.field(told, "file_name", root / QUESTIONS), told["id"])
    data = {file.name: file}
    kind = {"type": ["string", "number"]}
    return Task(
        id=f"dabench-{told['id']}",
        suite=NAME,
        version=VERSION,
        question=(
            f"{told['question']}\n\nThe data is in {file.name}. {told['constraints']}\n\nThe answer is described as: "
            f"{told['format']}\nAnswer with an object with the fields {', '.join(gold)}: what is in the brackets of each."
        ),
        schema={
            "type": "object",
            "properties": dict.fromkeys(gold, kind),
            "required": list(gold),
        },
        gold_answer=gold,
        gold_state=STATE,
        category=str(told.get("level", "")),
        template=f"dabench-{file.name}",
        tolerance=TOLERANCE,
        data=data,
        latency=0.0,
        world=functools.partial(Files, data),
        judge=judge,
    )


def judge(task: Task, answer: Any) -> bool:
    """As the original scorer: each value the same text, or the same number; further fields do not matter."""
    return isinstance(answer, dict) and all(
        _is_equal(answer.get(name), value) for name, value in task.gold_answer.items()
    )


def _is_equal(given: Any, label: str) -> bool:
    if isinstance(given, bool) or given is None:
        return str(given) == label
    if str(given) == label:
        return True
    try:
        return abs(float(given) - float(label)) < TOLERANCE
    except ValueError:
        return False
