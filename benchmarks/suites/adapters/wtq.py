"""WikiTableQuestions: questions about one table of a Wikipedia page each.

`path` holds data/ and csv/ as published. 200 questions of pristine-unseen-tables, or of the examples that are there.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from pathlib import Path
from typing import Any

from benchmarks.suites.adapters import reading
from benchmarks.suites.base import Task
from benchmarks.suites.files import STATE, Files
from codeact.errors import UsageError

NAME, VERSION = "wtq", "1"
COUNT = 200
SETS = ("pristine-unseen-tables", "training")
HEADER = "id\tutterance\tcontext\ttargetValue"
TOLERANCE = 1e-6
_ESCAPES = {"\\n": "\n", "\\p": "|", "\\\\": "\\"}


def suite(path: Path, seed: int | None = None) -> list[Task]:
    """Raises UsageError for a folder that is no copy of it."""
    root = reading.folder(path, "WikiTableQuestions", "data", "csv")
    files = [root / "data" / f"{name}.tsv" for name in SETS]
    file = next((each for each in files if each.is_file()), None)
    if file is None:
        raise UsageError(f"{root / 'data'}: there is none of {', '.join(each.name for each in files)} in it")
    head, *rows = reading.text(file).rstrip("\n").split("\n")
    if head.strip() != HEADER:
        raise UsageError(f"{file}: its first line is {head[:60]!r}, not {HEADER!r}")
    wrong = next((number for number, row in enumerate(rows, 2) if row.count("\t") != 3), None)
    if wrong is not None:
        raise UsageError(f"{file}:{wrong}: a line has four fields with tabs between them")
    return [_task(row.split("\t"), root) for row in reading.sample(rows, COUNT, seed)]


def _task(row: list[str], root: Path) -> Task:
    key, question, context, target = row
    table = reading.inside(root, context, key)
    data = {"table.csv": table}
    return Task(
        id=f"wtq-{key}",
        suite=NAME,
        version=VERSION,
        question=(
            f'{unescaped(question)}\n\nThe table is in table.csv; quotes within cells are written \\". Answer with a list of the '
            "values that are asked for, as text as they are in the table, or as numbers; with one value, a list of one."
        ),
        schema={"type": "array", "items": {"type": ["string", "number"]}},
        gold_answer=[unescaped(each) for each in target.split("|")],
        gold_state=STATE,
        template=f"wtq-{context}",
        tolerance=TOLERANCE,
        unordered=True,
        data=data,
        latency=0.0,
        world=functools.partial(Files, data),
        judge=judge,
    )


def unescaped(text: str) -> str:
    return re.sub(r"\\[np\\]", lambda match: _ESCAPES[match[0]], text)


def judge(task: Task, answer: Any) -> bool:
    """In the manner of the official evaluator: as many values, each the same number or, but for case, accents, quotes and
    remarks in brackets at the end, the same text. Dates are compared as text."""
    if not isinstance(answer, list):
        return False
    left = [_value(each) for each in answer]
    for each in task.gold_answer:
        gold = _value(each)
        found = next((index for index, other in enumerate(left) if _same(gold, other)), None)
        if found is None:
            return False
        del left[found]
    return not left


def _same(gold: str | float, other: str | float) -> bool:
    if isinstance(gold, float) and isinstance(other, float):
        return abs(gold - other) <= TOLERANCE
    return gold == other


def _value(given: Any) -> str | float:
    text = unicodedata.normalize("NFKD", str(given))
    text = "".join(each for each in text if unicodedata.category(each) != "Mn")
    text = re.sub(r"[‘’´`]", "'", text)
    text = re.sub(r"[“”]", '"', text)
    text = re.sub(r"[‐‑‒–—−]", "-", text)
    text = re.sub(r"(\s*(\[[^\]]*\]|\([^)]*\)))+$", "", text.strip()) or text.strip()
    text = re.sub(r'^"([^"]*)"$', r"\1", text).rstrip(".")
    text = re.sub(r"\s+", " ", text).casefold().strip()
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text
