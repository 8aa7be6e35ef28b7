"""Spider: questions about SQLite databases; the gold answer is what the published query gives.

`path` holds dev.json and database/. Left out are questions whose query fails, or gives no row or more than 100.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
from pathlib import Path
from typing import Any

from benchmarks.suites.adapters import reading
from benchmarks.suites.base import Task, same
from benchmarks.suites.files import STATE, Files
from codeact.errors import UsageError

NAME, VERSION = "spider", "1"
MAX_ROWS = 100
MAX_STEPS = 20_000_000
"""Of SQLite's machine, for one query."""
READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
TOLERANCE = 1e-6


def suite(path: Path, seed: int | None = None) -> list[Task]:
    """Raises UsageError for a folder that is no copy of it."""
    root = reading.folder(path, "Spider", "dev.json", "database")
    told = reading.parsed(root / "dev.json")
    if not isinstance(told, list):
        raise UsageError(f"{root / 'dev.json'}: this is not a list of questions")
    made = (_task(number, each, root) for number, each in enumerate(told))
    return [task for task in made if task is not None]


def _task(number: int, told: dict[str, Any], root: Path) -> Task | None:
    name, query = (reading.field(told, field, root / "dev.json") for field in ("db_id", "query"))
    file = reading.inside(root / "database", f"{name}/{name}.sqlite", str(number))
    rows = rows_of(file, query)
    if not rows or len(rows) > MAX_ROWS:
        return None
    data = {f"{name}.sqlite": file}
    return Task(
        id=f"spider-{number}",
        suite=NAME,
        version=VERSION,
        question=(
            f"{told['question']}\n\nThe data is in the SQLite database {name}.sqlite. Answer with a list of rows, each a list of "
            "its values in the order in which the question names them; also where there is one row or one value."
        ),
        schema={"type": "array", "items": {"type": "array"}},
        gold_answer=rows,
        gold_state=STATE,
        template=f"spider-{name}",
        tolerance=TOLERANCE,
        unordered=not re.search(r"\border\s+by\b", query, re.IGNORECASE),
        data=data,
        latency=0.0,
        world=functools.partial(Files, data),
        judge=judge,
    )


def rows_of(file: Path, query: str) -> list[list[Any]]:
    """What a query gives; nothing where it fails, takes too long, or gives what JSON has not."""
    with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
        database.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
        database.set_authorizer(_only_read)
        database.set_progress_handler(lambda: 1, MAX_STEPS)
        try:
            rows = [list(row) for row in database.execute(query).fetchmany(MAX_ROWS + 1)]
        except sqlite3.Error:
            return []
    return rows if all(isinstance(each, str | int | float | None) for row in rows for each in row) else []


def _only_read(action: int, *about: str | None) -> int:
    """A query may read this database; with ATTACH it would make files elsewhere."""
    return sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY


def judge(task: Task, answer: Any) -> bool:
    """The same rows, in the same order where the query orders them; the values of a row in any order, and a number that the
    database keeps as text is that number."""
    if not isinstance(answer, list) or not all(isinstance(row, list) for row in answer):
        return False
    gold, given = _numbers(task.gold_answer), _numbers(answer)
    if task.unordered:
        return same(gold, given, task.tolerance, unordered=True)
    return len(gold) == len(given) and all(
        same(one, other, task.tolerance, unordered=True) for one, other in zip(gold, given, strict=True)
    )


def _numbers(rows: list[list[Any]]) -> list[list[Any]]:
    return [[_number(each) for each in row] for row in rows]


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
