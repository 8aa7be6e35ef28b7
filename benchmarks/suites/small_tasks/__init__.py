"""Twelve easy questions over small generated files. The questions name no columns: the manifest does."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from benchmarks.suites.base import Oracle, Task
from benchmarks.suites.files import STATE, Files, solve_by_query

FOLDER = Path(__file__).parent
NAME, VERSION = "small-tasks", "2"

QUERIES = {
    "small-01": "SELECT region FROM sales GROUP BY region ORDER BY sum(units * price) DESC LIMIT 1",
    "small-02": "SELECT sum(units) FROM sales WHERE product = 'Widget'",
    "small-03": "SELECT round(avg(salary), 2) FROM employees WHERE department = 'Engineering'",
    "small-04": "SELECT name FROM employees ORDER BY hire_date LIMIT 1",
    "small-05": "SELECT count(*) FROM employees WHERE salary IS NULL",
    "small-06": "SELECT city FROM orders JOIN customers USING (customer_id) WHERE status = 'completed' "
    "GROUP BY city ORDER BY sum(amount) DESC LIMIT 1",
    "small-07": "SELECT count(*) FROM orders WHERE status = 'cancelled' AND date BETWEEN '2026-03-01' AND '2026-03-31'",
    "small-08": "SELECT CAST(date AS VARCHAR) FROM weather WHERE city = 'Oslo' ORDER BY temp_c DESC LIMIT 1",
    "small-09": "SELECT round(corr(temp_c, rain_mm), 3) FROM weather WHERE city = 'Lima'",
    "small-10": "SELECT regexp_extract(c1, '\\[(\\w+)\\]', 1) AS part FROM app WHERE c1 LIKE '% ERROR %' "
    "GROUP BY part ORDER BY count(*) DESC LIMIT 1",
    "small-11": "SELECT name FROM scores ORDER BY scores.math + scores.art + scores.bio DESC LIMIT 1",
}
"""Reference solutions by the tools for tables. The last task has no data: it is for who can calculate."""


def suite() -> list[Task]:
    lines = (FOLDER / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    tasks = []
    for told in map(json.loads, lines):
        data = {Path(name).name: FOLDER / name for name in told["files"]}
        query = QUERIES.get(told["id"])
        tasks.append(
            Task(
                id=told["id"],
                suite=NAME,
                version=VERSION,
                question=told["question"],
                schema={"type": "string" if isinstance(told["answer"], str) else "number"},
                gold_answer=told["answer"],
                gold_state=STATE,
                template=told["id"],
                calls_min=1 if data else 0,
                tolerance=told["tolerance"],
                data=data,
                latency=0.0,
                world=functools.partial(Files, data),
                oracle=Oracle(solve_by_query, {"query": query}) if query else None,
            )
        )
    return tasks
